"""The supervisor believes the agent dead, and starts another one on its thread: a partition, a missed lease."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.events.done import Overlapped, PresumedDead
from chaos.events.seen import Exited, Reached, Started
from chaos.faults import Disk, Plain, Scene, Wakes, first, hit
from chaos.journal import AnyEvent
from chaos.results import Landed
from chaos.sandbox import Able, Survival
from chaos.stores import Store
from chaos.targets import Strategy


@dataclass(frozen=True)
class FalseDead(Plain):
    """A second worker resumes the thread while the first is alive, held at its point; later the first goes on.

    A correct agent notices that another one has taken over, before it changes anything: of each step only one worker
    has effects outside or commits. The first may end with an error; what counts is the result of the second.

    `disk: own` starts the second on another node (empty disk, other hostname, own ports), `shared` on the same
    workspace and tmp; the durable zone is the same for both. With `wakes: resumed` the first goes on when the second
    has announced `after_load`, and from then on they move in turn, point by point; with `finished` it wakes up when
    the second has done everything.

    It landed only if both were in /proc at once, and the second announced a point before the first had ended.
    """

    disk: Disk = "own"
    wakes: Wakes = "resumed"

    @property
    def survival(self) -> Survival:
        return Survival.NONE

    def missing(self, able: Able) -> str:
        return able.shared_disk if self.disk == "shared" else ""

    def unsuited(self, store: Store | None, strategy: Strategy) -> str:
        if strategy.outside:
            return "the strategy's half outside the sandbox is made for one sandbox, and here are two at once"
        return ""

    def inject(self, scene: Scene) -> None:
        scene.gate.presume_dead(self.disk, self.wakes)

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        presumed, started = first(after, PresumedDead), first(after, Started)
        if presumed is None or started is None:
            return None
        pids = presumed.pid, started.pid
        both = next((e for e in after if isinstance(e, Overlapped) and (e.first, e.second) == pids), None)
        if both is None:
            return None
        ended = next((e.at for e in after if isinstance(e, Exited) and e.attempt == presumed.attempt), float("inf"))
        points = [e for e in after if isinstance(e, Reached) and e.attempt == started.attempt and e.at <= ended]
        if not points:
            return None
        return hit(
            "false_dead",
            at,
            "two workers at once",
            pids=f"{both.first}, {both.second}",
            states=", ".join(both.states),
            second_came_to=f"{points[0].step}/{points[0].phase}",
            hosts=started.hostname,
        )
