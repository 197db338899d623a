"""A connection of the agent is slow, broken, cut off in the middle or refused: TCP faults by Toxiproxy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from typing import Literal

from chaos.errors import HarnessError, ScenarioError
from chaos.events.done import Healed, LinkHit, Poisoned
from chaos.faults import Plain, Scene, first, hit
from chaos.journal import AnyEvent
from chaos.outfit import Outfit
from chaos.results import Landed
from chaos.sandbox import Able, Survival
from chaos.scenario.units import Bytes, Seconds
from chaos.stores import Store
from chaos.targets import Strategy

USED: Mapping[str, frozenset[str]] = {
    "latency": frozenset({"latency", "jitter"}),
    "bandwidth": frozenset({"rate"}),
    "reset_peer": frozenset({"timeout"}),
    "timeout": frozenset({"timeout"}),
    "slow_close": frozenset({"delay"}),
    "limit_data": frozenset({"bytes"}),
    "slicer": frozenset({"average_size", "size_variation", "delay"}),
    "down": frozenset(),
}
"""Which attributes a toxic has; the names are Toxiproxy's."""

KILO = 1000


@dataclass(frozen=True)
class Network(Plain):
    """What the agent talks to over `link` is made bad by `toxic` for a while; then it is good again.

    A correct agent takes a slow answer for slow and not for none, and half an answer for none and not for an answer.
    After a connection that was cut it knows what it does not know: whether the other side did what it was asked. What
    is repeatable (a question to the model, an effect with an idempotency key, a commit) it does again on a new
    connection, after a pause that grows; what is not, it reports, and comes to a loud end rather than a wrong one.

    A toxic works on open connections and on new ones. It goes when `connections` of them were hit (0: however many)
    or after `seconds`, whichever is first; until it is gone, nobody new is let in after the last of these, so that a
    fault of so many connections hits just so many. It landed only if taps before and behind the proxy saw its effect
    on bytes of the agent: held back for as long as it guarantees, swallowed, or a connection that neither side ended.

    `down` cuts open connections, and refuses new ones. Who has none open gets one, and it is reset: that is how it is
    seen that somebody came.

    Args:
        stream: whose bytes it is for: the agent's ("upstream") or those sent to it ("downstream").
        latency, jitter: of `latency`: how long bytes wait, give or take.
        rate: of `bandwidth`: bytes in a second.
        timeout: of `reset_peer` and `timeout`: from the first byte to the reset, from the last one to the end.
        bytes: of `limit_data`: so many pass, and the connection ends.
        delay: of `slow_close`: from the end to the end; of `slicer`: between two slices.
        average_size, size_variation: of `slicer`: of the slices.
    """

    toxic: Literal["latency", "bandwidth", "reset_peer", "timeout", "slow_close", "limit_data", "slicer", "down"] = (
        "reset_peer"
    )
    link: Literal["model", "services", "postgres", "redis", "temporal"] = "model"
    stream: Literal["upstream", "downstream"] = "downstream"
    seconds: Seconds = 0.5
    connections: int = 0
    latency: Seconds = 0.1
    jitter: Seconds = 0.0
    rate: Bytes = 50 * KILO
    timeout: Seconds = 0.05
    bytes: Bytes = 100
    delay: Seconds = 0.01
    average_size: Bytes = 200
    size_variation: Bytes = 50

    def __post_init__(self) -> None:
        attributes = frozenset().union(*USED.values())
        given = {field.name for field in fields(self) if getattr(self, field.name) != field.default}
        if other := sorted(given & attributes - USED[self.toxic]):
            known = ", ".join(sorted(USED[self.toxic])) or "none"
            raise ScenarioError(f"{other[0]} is no attribute of {self.toxic}; it has {known}")
        if self.connections < 0:
            raise ScenarioError(f"connections counts those that are hit; 0 is any number (got {self.connections})")
        if self.rate < KILO:
            raise ScenarioError(f"rate is in whole kB a second, as Toxiproxy has it (got {self.rate}B)")
        if not 0 <= self.size_variation < self.average_size:
            raise ScenarioError("size_variation must be less than average_size")
        if self.jitter > self.latency:
            raise ScenarioError("jitter must not be more than latency: nothing arrives before it was sent")

    @property
    def survival(self) -> Survival:
        return Survival.NONE

    @property
    def outfit(self) -> Outfit:  # type: ignore[override]
        return Outfit(links=frozenset({self.link}))

    def missing(self, able: Able) -> str:
        return "" if find_spec("toxiproxy") else "no client of Toxiproxy: pip install toxiproxy-python"

    def unsuited(self, store: Store | None, strategy: Strategy) -> str:
        if self.link in ("model", "services") or self.link in strategy.needs:
            return ""
        return f"the strategy keeps nothing on {self.link}: no link leads there"

    def inject(self, scene: Scene) -> None:
        if scene.links is None:
            raise HarnessError("the run was started without links (Outfit.links)")
        link = scene.links[self.link]
        outage = link.poison(self.toxic, self.stream, self._attributes(), self.seconds, self.connections)
        scene.gate.once_ended(outage.end, run=True)

    def _attributes(self) -> dict[str, int]:
        """Return the toxic's attributes in Toxiproxy's units: ms, kB a second, bytes, and for the slicer's delay µs."""
        values = {
            "latency": round(self.latency * 1000),
            "jitter": round(self.jitter * 1000),
            "rate": self.rate // KILO,
            "timeout": round(self.timeout * 1000),
            "delay": round(self.delay * (1_000_000 if self.toxic == "slicer" else 1000)),
            "bytes": self.bytes,
            "average_size": self.average_size,
            "size_variation": self.size_variation,
        }
        return {name: value for name, value in values.items() if name in USED[self.toxic]}

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        begun = first(after, Poisoned)
        if begun is None or (begun.toxic, begun.link) != (self.toxic, self.link):
            return None
        hits = hits_of(begun, after)
        if not hits:
            return None
        healed = next(
            (e for e in after if isinstance(e, Healed) and (e.link, e.number) == (begun.link, begun.number)), None
        )
        return hit(
            "network",
            at,
            f"{self.link}: {self.toxic}, {hits[0].how}",
            connections=len(hits),
            bytes=hits[0].bytes,
            seconds=hits[0].seconds,
            lasted_seconds=healed.seconds if healed else "to the end",
            proxy=begun.server,
        )


def hits_of(begun: Poisoned, after: Sequence[AnyEvent]) -> list[LinkHit]:
    """Return the connections that were hit by what began with *begun*."""
    return [e for e in after if isinstance(e, LinkHit) and (e.link, e.number) == (begun.link, begun.number)]
