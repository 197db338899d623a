"""What a recorded run was like at each of its points: everything that a later incarnation can find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.capture import quiet
from chaos.capture.shelf import Capture, Shelf
from chaos.durable import Lease
from chaos.errors import HarnessError
from chaos.events.seen import Observation
from chaos.gate import Announcement
from chaos.journal import Journal
from chaos.plan import Point
from chaos.sandbox import Sandbox
from chaos.world.memory import Memory
from chaos.world.server import World

if TYPE_CHECKING:
    from chaos.servers import Kept, Running

TRIES = 3  # something of the agent ran while it was captured: once more, and in the end with all of it stopped
REST_SECONDS = 0.02  # for what the agent has begun before it stood still; for one that works on it is in vain
STOP_SECONDS = 2.0  # from SIGSTOP until every thread of it has got a processor to stop on


class Tied(HarnessError):
    """A crash state cannot be captured, or part of it is where it cannot be copied; the text says why."""


@dataclass(frozen=True)
class Moment:
    """The agent stood at *point* of the recorded run.

    Args:
        at: seconds since the run began.
        events: how many events the journal had.
        memory: what the world remembered.
        kept: what the run had on each server.
        pid, written_bytes: of the agent.
        state: digest of the agent's state, as it announced it here; None if it announced none.
        seen: the sandbox from outside, where a run may end early; None elsewhere.
    """

    point: Point
    at: float
    events: int
    capture: Capture
    memory: Memory
    kept: Mapping[str, Kept]
    pid: int
    written_bytes: int
    state: str | None
    seen: Observation | None

    @property
    def digests(self) -> tuple[str, ...]:
        """What tells this crash state from others: disk, servers, and what the services remember."""
        servers = (self.kept[name].digest for name in sorted(self.kept))
        zones = (self.capture.digests[name] for name in sorted(self.capture.digests))
        return (*zones, *servers, self.memory.services, self.memory.ledger)


class Recorder:
    """Captures the agent of one crash-free run at every point that it comes to (see `chaos.rig.Onlooker`).

    Args:
        running, parts: the servers that the strategy uses, and what the run has there.
        look: observes the sandbox of a live agent.
    """

    def __init__(
        self,
        shelf: Shelf,
        world: World,
        journal: Journal,
        running: Mapping[str, Running],
        parts: Mapping[str, Lease],
        look: Callable[[Sandbox], Observation],
    ) -> None:
        self.moments: dict[Point, Moment] = {}
        self._shelf, self._world, self._journal = shelf, world, journal
        self._running, self._parts, self._look = running, parts, look

    def standing(self, said: Announcement, sandbox: Sandbox, *, settled: bool) -> bool:
        """Capture everything, the agent's whole tree being still. The run never ends here."""
        point = Point(said.step, said.point)
        if point in self.moments:
            return False
        for _ in range(TRIES):
            if moment := self._taken(point, said, sandbox):
                self.moments[point] = moment
                return False
        sandbox.stop()
        try:
            for _ in range(TRIES):
                if moment := self._taken(point, said, sandbox, stopped=True):
                    self.moments[point] = moment
                    return False
        finally:
            sandbox.resume()
        raise Tied(f"the agent's sandbox did not stand still at {point}, stopped as it was")

    def taken_before(self) -> Moment:
        """Return the moment before the agent was started for the first time."""
        kept = {name: self._kept(name) for name in self._parts}
        origin = Point(None, "before_load")
        return Moment(origin, 0.0, 0, self._shelf.take(), self._world.memory(), kept, 0, 0, None, None)

    def _taken(self, point: Point, said: Announcement, sandbox: Sandbox, *, stopped: bool = False) -> Moment | None:
        """Return the moment; None if something ran meanwhile. What has just been *stopped* may do so for an instant."""
        tree, turns = quiet.rested(sandbox.pid, STOP_SECONDS if stopped else REST_SECONDS)
        events = len(self._journal.events)
        try:
            moment = Moment(
                point,
                self._journal.now(),
                events,
                self._shelf.take(quiet.mapped(tree, self._shelf.root)),
                self._world.memory(),
                {name: self._kept(name) for name in self._parts},
                sandbox.pid,
                sandbox.written_bytes(),
                said.state,
                self._look(sandbox) if said.point == "after_commit" else None,
            )
        except FileNotFoundError:  # a file vanished while it was looked at
            return None
        if turns is None:  # nobody tells
            return moment if stopped else None
        now = quiet.tree(sandbox.pid)
        return moment if (tree, turns, events) == (now, quiet.turns(now), len(self._journal.events)) else None

    def _kept(self, name: str) -> Kept:
        kept = self._running[name].keep(self._parts[name])
        if kept is None:
            raise Tied(f"what a run has on {name} cannot be put back")
        return kept
