"""Until nothing hits: the 1st operation, the 2nd, … with real runs, until a run comes to its end without an n-th.

SQLite's tests for want of memory and for I/O errors work like this: "the test is repeated until it completes without
the simulated failure" (How SQLite Is Tested, sections 3.1 and 3.2). Nobody has to know beforehand how many operations
a recovery makes, and the last run proves that none was left out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from chaos.explorers import Attempt, Covered, _points
from chaos.explorers.combine import Combine
from chaos.explorers.operation import Operation
from chaos.explorers.replay import Replay
from chaos.plan import Plan, PlannedFault, Point
from chaos.sandbox import Survival

if TYPE_CHECKING:
    from chaos.scenario import FaultSpec

TIMES, BESIDES = 2, 20
"""How far a sweep goes at most: *TIMES* as many operations as a crash-free run makes, and *BESIDES*.

An agent that asks more often than that in one incarnation does the work of two whole runs and has not come to its end.
"""


@dataclass(frozen=True)
class UntilNone:
    """Hit operation 1, 2, 3, …, each in a run of its own, until a run ends in which there is no such operation.

    That run must recover as promised too. In a chain of faults this is done for every plan of those before.

    Args:
        operation: "model_call", "effect", "fsync", ... (`chaos.plan.COUNTED`).
        recovery: operations of an incarnation after the first.
    """

    operation: str = "model_call"
    recovery: bool = False

    def plans(self, points: Sequence[Point], fault: str, runs: int, rng: random.Random) -> tuple[Plan, ...]:
        """Return what is known without trying: the operations of the crash-free run, or the first of a recovery."""
        if self.recovery:
            return (_points.plan(fault, self.point(1)),)
        return Operation(self.operation, every=True).plans(points, fault, runs, rng)

    @property
    def place(self) -> str:
        """The point without its number."""
        return f"recovery/{self.operation}" if self.recovery else self.operation

    def point(self, number: int) -> Point:
        """Return where the operation *number* is hit."""
        return Point(number, self.operation, self.recovery)

    def seek(
        self, points: Sequence[Point], fault: FaultSpec, runs: int, rng: random.Random, attempt: Attempt
    ) -> Covered:
        """Try every number of each such fault in the chain of *fault*, and say how many there were."""
        chain = tuple(_chain(fault))
        sweep = _Sweep(chain, points, runs, rng, attempt)
        sweep.go(Plan(), chain)
        return sweep.covered()


def _chain(spec: FaultSpec) -> Iterator[FaultSpec]:
    """Yield *spec* and all that follow it in a plan, in order."""
    yield spec
    for then in spec.then:
        yield from _chain(then)


@dataclass
class _Sweep:
    """One search. Every fault of *chain* gives one planned fault, so that the n-th of a plan is of the n-th there."""

    chain: tuple[FaultSpec, ...]
    points: Sequence[Point]
    runs: int
    rng: random.Random
    attempt: Attempt
    ends: dict[tuple[str, str], list[range]] = field(default_factory=dict)  # label and place: the numbers that were hit
    gaps: list[str] = field(default_factory=list)

    def go(self, plan: Plan, rest: Sequence[FaultSpec]) -> int:
        """Try all continuations of *plan* by *rest*; return how many of the faults hit, -1 without a try."""
        if not rest:
            return self._try(plan)
        spec, *later = rest
        if isinstance(spec.at, UntilNone):
            return self._sweep(plan, spec, spec.at, later)
        continued = self._continued(plan, spec)
        if plan.faults and not continued:
            self.gaps.append(f"{spec.label} has no place after {plan}")
        return max((self.go(further, later) for further in continued), default=-1)

    def _sweep(self, plan: Plan, spec: FaultSpec, at: UntilNone, later: Sequence[FaultSpec]) -> int:
        first, hit = self._first(plan, spec, at), -1
        last = max(first, TIMES * self._made(at.operation) + BESIDES)
        for number in range(first, last + 1):
            hit = self.go(Plan((*plan.faults, PlannedFault(spec.label, at.point(number)))), later)
            if hit == len(plan.faults):
                self.ends.setdefault((spec.label, at.place), []).append(range(first, number))
            if hit <= len(plan.faults):
                return hit
        self.gaps.append(f"{spec.label} still hit at {at.point(last)}, and nobody looked further: no end is in sight")
        return hit

    def _try(self, plan: Plan) -> int:
        tried = self.attempt(plan)
        hit = len(plan.faults) - tried.unreached
        if tried.unreached and not isinstance(self.chain[hit].at, UntilNone):
            self.gaps.append(f"the agent never came to {plan.faults[hit]}")
        elif tried.unreached and tried.broke:
            self.gaps.append(f"the agent never came to {plan.faults[hit]}, and broke a promise: that proves no end")
        return hit

    def _first(self, plan: Plan, spec: FaultSpec, at: UntilNone) -> int:
        """Return the first number that can come: where the agent lives on, those before the last fault have been."""
        if at.recovery or not plan.faults or self.chain[len(plan.faults) - 1].fault.survival is not Survival.NONE:
            return 1
        known = self._continued(plan, replace(spec, at=Operation(at.operation, every=True)))
        return (known[0].faults[-1].point.step or 0) if known else self._made(at.operation) + 1

    def _continued(self, plan: Plan, spec: FaultSpec) -> tuple[Plan, ...]:
        if not plan.faults:
            return spec.at.plans(self.points, spec.label, self.runs, self.rng)
        return Combine(Replay(plan), (replace(spec, then=()),)).plans(self.points, "", 1, self.rng)

    def _made(self, operation: str) -> int:
        """Return how many operations of that kind the crash-free run made."""
        return len({point for point in self.points if point.phase == operation})

    def covered(self) -> Covered:
        """Return what was swept, and what was not."""
        told = [_told(*what, swept) for what, swept in self.ends.items() if any(swept)]
        never = [f"{label} never hit: no {place} came" for (label, place), swept in self.ends.items() if not any(swept)]
        return Covered("; ".join(told), "; ".join(dict.fromkeys([*self.gaps, *never])))


def _told(label: str, place: str, swept: Sequence[range]) -> str:
    if len(swept) > 1:
        each = f"{min(map(len, swept))} to {max(map(len, swept))} times each"
        return f"{label} hit every {place} of {len(swept)} sweeps ({each}), until the next never came"
    first, last = swept[0][0], swept[0][-1]
    numbers = f"{first} to {last}" if first < last else f"{last}"
    return f"{label} hit at {place} {numbers}, and {last + 1} never came"
