"""Pairs: every two things together that may matter, a fault and another one during recovery, in as few plans as can be.

A covering array of strength 2 (or more), made greedily, one plan at a time: D. M. Cohen et al., "The AETG System: An
Approach to Testing Based on Combinatorial Design", IEEE Transactions on Software Engineering 23(7), 1997. Faults that
two things bring about together are nearly all that there are: D. R. Kuhn et al., "Software Fault Interactions and
Implications for Software Testing", IEEE Transactions on Software Engineering 30(6), 2004.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from chaos.explorers import Attempt, Covered, _pool
from chaos.explorers._pool import ASKING, Member
from chaos.faults.kill import Kill
from chaos.plan import STEP_PHASES, Plan, PlannedFault, Point
from chaos.scenario import FaultSpec

THIRDS = ("early", "middle", "late")
AGAIN = "again"
"""Where the second fault hits after one that left the agent alive: at the same point, where it stands once more."""

TRIES = 3  # of a pair whose faults did not both hit, each at another step of the same third


class _Row(NamedTuple):
    """One plan but for its step: two faults, the phase and third of the run of the first, the place of the second."""

    first: str
    phase: str
    third: str
    second: str
    where: str


@dataclass(frozen=True)
class Pairs:
    """Run so many pairs of faults that any two of five things come together that can, each in all of its values.

    The five are: the first fault, its phase, the third of the run that its step is in, the second fault, and the phase
    of the recovery that it hits. Both faults are of the fault and all under its `then`. A first one that leaves the
    agent alive has no recovery: it hits `before_think`, and so does the second, when the agent asks once more. The step
    is drawn.

    Args:
        strength: how many of the five come together in all of their values: 2 for pairs, 5 for all plans.
        phases: names of phases, of recoveries too; those of coming up come on top.
        after: first step that may be hit.
        before: last step that may be hit; None is the last of the run.
    """

    strength: int = 2
    phases: tuple[str, ...] = STEP_PHASES
    after: int = 0
    before: int | None = None

    def plans(self, points: Sequence[Point], fault: str, runs: int, rng: random.Random) -> tuple[Plan, ...]:
        """Return the pairs of a *fault* that ends the agent with itself."""
        return tuple(next(tries) for tries in self._design(points, FaultSpec(fault, "kill", Kill(), self), rng))

    def seek(
        self, points: Sequence[Point], fault: FaultSpec, runs: int, rng: random.Random, attempt: Attempt
    ) -> Covered:
        """Run all pairs, however many *runs* are wanted; one that missed again at another step."""
        missed = []
        designed = self._design(points, fault, rng)
        for tries in designed:
            plan = None
            for plan in tries:
                if attempt(plan).landed:
                    break
            else:
                missed.append(str(plan))
        told = f"{len(designed)} pairs, any {self.strength} things together" if designed else ""
        return Covered(told, f"never both hit: {', '.join(missed)}" if missed else "")

    def _design(self, points: Sequence[Point], fault: FaultSpec, rng: random.Random) -> list[Iterator[Plan]]:
        """Return for each pair that is needed its plans, each at another step."""
        places = _Places(_pool.members(points, fault, self.phases, self.after, self.before))
        rows = list(places.rows)
        rng.shuffle(rows)  # of those that cover as much, no step of the field comes first
        return [places.plans(row, rng) for row in _cover(rows, self.strength)]


def _cover(rows: Sequence[_Row], strength: int) -> list[_Row]:
    """Return some of *rows* in which all combinations of *strength* values come that come in any, greedily.

    What a row adds can only become less: it is counted anew when it comes to be the best.
    """
    covered: set[object] = set()
    best = [(-len(_combinations(row, strength)), number) for number, row in enumerate(rows)]
    heapq.heapify(best)
    chosen = []
    while best:
        promised, number = heapq.heappop(best)
        fresh = _combinations(rows[number], strength) - covered
        if len(fresh) == -promised:
            chosen.append(rows[number])
            covered |= fresh
        elif fresh:
            heapq.heappush(best, (-len(fresh), number))
    return chosen


def _combinations(row: _Row, strength: int) -> set[object]:
    return set(combinations(enumerate(row), strength))


class _Places:
    """Every pair that can happen, in *rows*, with each point that its first fault may hit."""

    def __init__(self, members: Sequence[Member]) -> None:
        steps = sorted({point.step for member in members for point in member.first if point.step is not None})
        self._thirds = {step: THIRDS[place * len(THIRDS) // len(steps)] for place, step in enumerate(steps)}
        self._last = steps[-1] if steps else 0
        self._seconds = {str(place): place for member in members for place in member.recovering}
        self.rows: dict[_Row, list[Point]] = {}
        for one in members:
            for point in one.first:
                third = self._thirds.get(-1 if point.step is None else point.step, THIRDS[0])
                for other in members:
                    for where in self._where(one, point, other):
                        row = _Row(one.label, point.phase, third, other.label, where)
                        self.rows.setdefault(row, []).append(point)

    def _where(self, one: Member, point: Point, other: Member) -> list[str]:
        if not one.ends:
            return [AGAIN] if point.phase == ASKING and point in other.first else []
        # The agent that comes back from the end of its last step has no further one.
        ended = point.step == self._last and point.phase == STEP_PHASES[-1]
        return [str(place) for place in other.recovering if not (ended and place.phase in STEP_PHASES)]

    def plans(self, row: _Row, rng: random.Random) -> Iterator[Plan]:
        """Return plans of *row* at different steps."""
        points = self.rows[row]
        chosen = rng.sample(points, min(TRIES, len(points)))
        both = ((PlannedFault(row.first, point), self._second(row, point)) for point in chosen)
        return map(Plan, both)

    def _second(self, row: _Row, point: Point) -> PlannedFault:
        return PlannedFault(row.second, self._seconds.get(row.where, point))
