"""Derived deaths are checked against real ones: one run from the very start that is killed for real, many times.

Each kill hits an agent that has recovered from the one before and become equal to the recorded run again, so it hits
what a first kill there would have hit. To run up to each point anew would cost as much as the whole run, each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from chaos.capture.convergence import Convergence
from chaos.capture.moments import Moment
from chaos.events.done import Injecting
from chaos.gate import Announcement
from chaos.journal import AnyEvent, Journal
from chaos.plan import Plan
from chaos.sandbox import Sandbox
from chaos.supervisor import Supervisor


class Killed(NamedTuple):
    """What really happened from a kill on, as if it had been the first; *rest* as in `Derived`."""

    plan: Plan
    middle: tuple[AnyEvent, ...]
    rest: int | None


class Chain:
    """Kills an agent at the points of *plans*, one after the other (see `chaos.rig.Onlooker`).

    Args:
        plans: of one fault each, in the order of the recorded run, with the moment that each hits at. One whose point
            comes before the agent has recovered from the kill before is left out.
    """

    def __init__(
        self, plans: Sequence[tuple[Plan, Moment]], convergence: Convergence, journal: Journal, supervisor: Supervisor
    ) -> None:
        self.hit: list[Plan] = []
        self._waiting = list(plans)
        self._convergence, self._journal, self._supervisor = convergence, journal, supervisor
        self._ends: list[
            tuple[int, int]
        ] = []  # events of the journal, and of the recorded run, where each kill is over
        self._next(0)

    def standing(self, said: Announcement, sandbox: Sandbox, *, settled: bool) -> bool:
        """Plan the next kill when the agent has got over the last one; end the run when that was the last of all."""
        if not self._convergence.standing(said, sandbox, settled=settled):
            return False
        moment = self._convergence.taken()
        self._supervisor.begin_anew()
        self._ends.append((len(self._journal.own), moment.events))
        return not self._next(moment.events)

    def _next(self, events: int) -> bool:
        """Plan the first kill of those waiting that comes after so many *events* of the recorded run."""
        later = [(plan, moment) for plan, moment in self._waiting if moment.events > events]
        if not later:
            return False
        plan = later[0][0]
        self._waiting = later[1:]
        self.hit.append(plan)
        self._supervisor.plan = Plan((*self._supervisor.plan.faults, *plan.faults))
        return True

    def killed(self) -> list[Killed]:
        """Return what became of each kill that was injected, when the run is over."""
        events = self._journal.own
        starts = [number for number, event in enumerate(events) if isinstance(event, Injecting)]
        found = []
        for number, start in enumerate(starts):
            end, rest = self._ends[number] if number < len(self._ends) else (len(events), None)
            found.append(Killed(self.hit[number], _first(events[start:end]), rest))
        return found


def _first(events: Sequence[AnyEvent]) -> tuple[AnyEvent, ...]:
    """Return *events* from a kill on as if its incarnation had been the first."""
    before = events[0].attempt - 1
    return tuple(
        msgspec.structs.replace(event, attempt=event.attempt - before, **({"index": 0} if event is events[0] else {}))
        for event in events
    )
