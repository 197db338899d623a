"""Several faults in one run: a kill, and another one while the agent recovers from it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chaos.explorers import Explorer
from chaos.explorers.fixed import Fixed
from chaos.explorers.sampled import Sampled
from chaos.plan import Plan, Point

if TYPE_CHECKING:
    from chaos.scenario import FaultSpec


@dataclass(frozen=True)
class Combine:
    """Put the faults of *then* behind every plan of *first*, in order.

    A following fault is placed after the one before it: an agent that came back may never pass an earlier
    point again. Only one that names its points may name the same one, for an agent that comes to it a second time: when
    it does the step again, or tries again. One that finds no place leaves no plan, since half a plan would test
    something else.
    """

    first: Explorer = field(default_factory=Sampled)
    then: tuple[FaultSpec, ...] = ()

    def plans(self, points: Sequence[Point], fault: str, runs: int, rng: random.Random) -> tuple[Plan, ...]:
        """Return the plans of *first*, each continued; once for each place where *then* names several."""
        plans = self.first.plans(points, fault, runs, rng)
        for spec in self.then:
            plans = tuple(
                Plan(plan.faults + further.faults)
                for plan in plans
                for further in combine(spec, _later(points, plan, same=isinstance(spec.at, Fixed)), 1, rng)
            )
        return plans


def combine(spec: FaultSpec, points: Sequence[Point], runs: int, rng: random.Random) -> tuple[Plan, ...]:
    """Return the plans of the fault *spec* together with all that follows it."""
    return Combine(spec.at, spec.then).plans(points, spec.label, runs, rng)


def _later(points: Sequence[Point], plan: Plan, *, same: bool) -> Sequence[Point]:
    """Return those of *points* that come after the last certain place of *plan*, or are the *same*."""
    for planned in reversed(plan.faults):
        if planned.point in points:
            return points[list(points).index(planned.point) + (not same) :]
    return points
