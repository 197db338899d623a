"""Has a resumed agent become what the recorded one was at the same step? Then what follows is known already."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chaos.capture.moments import Moment
from chaos.capture.shelf import Shelf
from chaos.events.seen import Asked, Observation
from chaos.gate import Announcement
from chaos.journal import Journal
from chaos.plan import Point
from chaos.record import Record
from chaos.sandbox import Sandbox
from chaos.world.server import World

RUNNING = 2
"""Commits in a row that must be equal: one may be so by chance, or with a difference that shows when it is used."""


class Convergence:
    """Compares a resumed agent with the *moments* of the *recorded* run (see `chaos.rig.Onlooker`).

    Equal are: the state that it announces, what it asked the model since the step before, what the services remember,
    and the sandbox as it is seen from outside, files and processes; all of them when a step is committed, for `RUNNING`
    commits in a row. The ledger may hold an effect twice: it is in the record already, and no service answers otherwise
    for it. The durable zone may differ: a step that was redone leaves other records. What a new process reads from it
    may not (see `chaos.capture.deriver`).
    """

    def __init__(
        self,
        recorded: Record,
        moments: Mapping[Point, Moment],
        shelf: Shelf,
        world: World,
        journal: Journal,
        look: Callable[[Sandbox], Observation],
    ) -> None:
        self.at: Moment | None = None  # where it was equal for long enough
        self.same_store = False  # the durable zone was equal too
        self._recorded, self._moments, self._shelf = recorded, moments, shelf
        self._world, self._journal, self._look = world, journal, look
        self._equal = 0  # how often running
        self._seen = len(journal.own)

    def standing(self, said: Announcement, sandbox: Sandbox, *, settled: bool) -> bool:
        """Tell whether the agent has been equal for long enough."""
        if said.point != "after_commit":
            return False
        asked = [event for event in self._journal.own[self._seen :] if isinstance(event, Asked)]
        self._seen = len(self._journal.own)
        moment = self._moments.get(Point(said.step, said.point))
        if not settled or moment is None or not self._is_equal(said, sandbox, moment, asked):
            self._equal = 0
            return False
        self._equal += 1
        if self._equal < RUNNING:
            return False
        self.at = moment
        return True

    def taken(self) -> Moment:
        """Return where it was equal for long enough, and begin anew."""
        assert self.at is not None
        self._equal = 0
        return self.at

    def _is_equal(self, said: Announcement, sandbox: Sandbox, moment: Moment, asked: list[Asked]) -> bool:
        if said.state is None or said.state != moment.state or not asked:
            return False
        expected = (self._recorded.first_by_turn.get(request.turn) for request in asked)
        if any(right is None or _asks(one) != _asks(right) for one, right in zip(asked, expected, strict=True)):
            return False
        memory = self._world.memory()
        if (memory.services, memory.prompts) != (moment.memory.services, moment.memory.prompts):
            return False
        try:
            durable = self._shelf.current()["durable"]
        except FileNotFoundError:  # something beside the agent is at work there
            return False
        self.same_store = durable == moment.capture.digests["durable"]
        return moment.seen is not None and _bare(self._look(sandbox)) == _bare(moment.seen)


def _asks(request: Asked) -> tuple[object, ...]:
    """Return what is seen of a request that must be equal in equal runs."""
    return (
        request.turn, request.status, request.prompt, request.goal, request.budget, request.budget_tokens,
        request.tools, request.release, request.style,
    )  # fmt: skip


def _bare(seen: Observation) -> tuple[object, ...]:
    """Return what is the same in equal runs."""
    processes = sorted((one.argv, one.cwd, one.environment, one.ports) for one in seen.processes)
    return seen.files, seen.repositories, seen.packages, processes
