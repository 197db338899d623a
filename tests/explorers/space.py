"""Points, and faults with explorers, for the tests of explorers of whole plans."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from chaos.explorers import Explorer, Seeker, Tried
from chaos.explorers.sampled import Sampled
from chaos.faults import Fault
from chaos.faults.evict import Evict
from chaos.faults.kill import Kill
from chaos.faults.rate_limit import RateLimit
from chaos.plan import STEP_PHASES, Plan, Point
from chaos.scenario import FaultSpec

POINTS = [Point(step, phase) for step in range(6) for phase in STEP_PHASES]
RIGHT = Tried(landed=True, broke=frozenset())
MISSED = Tried(landed=False, broke=frozenset())
BROKE = Tried(landed=True, broke=frozenset({"state"}))


def spec(at: Explorer, *then: FaultSpec, fault: Fault | None = None, **vary: Sequence[Any]) -> FaultSpec:
    values = tuple((name, tuple(each)) for name, each in vary.items())
    return FaultSpec("kill", "kill", fault or Kill(), at, then, values)


def further(label: str, fault: Fault, at: Explorer | None = None, **vary: Sequence[Any]) -> FaultSpec:
    return replace(spec(at or Sampled(), fault=fault, **vary), label=label)


EVICT, LIMIT = further("evict", Evict()), further("rate_limit", RateLimit())


def tried(
    at: Seeker,
    fault: FaultSpec,
    runs: int = 40,
    seed: int = 1,
    outcome: Callable[[Plan], Tried] = lambda plan: RIGHT,
    points: Sequence[Point] = POINTS,
) -> list[Plan]:
    """Return what *at* tries of *fault*, where *outcome* says what becomes of a plan."""
    plans: list[Plan] = []

    def attempt(plan: Plan) -> Tried:
        plans.append(plan)
        return outcome(plan)

    at.seek(points, fault, runs, random.Random(seed), attempt)
    return plans
