"""Arrivals: faults that come at a rate, as failures do, several in one run."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from chaos.explorers import _points
from chaos.plan import STEP_PHASES, Plan, PlannedFault, Point
from chaos.seeds import SEED_BITS

Process = Literal["bernoulli", "poisson"]


@dataclass(frozen=True)
class Arrivals:
    """Let faults arrive by a random *process*, of which each run is one realisation that has at least one arrival.

    `bernoulli`: each step is hit with the same probability, whatever came before; the gaps are geometric. `poisson`:
    arrivals come at a constant rate in time, where a step lasts one unit; the gaps are exponential, and several may
    fall into one step. Where within its step an arrival hits, is drawn.

    Args:
        rate: arrivals per step, on average; a probability for `bernoulli`.
        faults: arrivals of one run after which there are no more.
        phases: names of phases.
        after: first step that may be hit.
        before: last step that may be hit; None is the last of the run.
    """

    process: Process = "bernoulli"
    rate: float = 0.1
    faults: int = 3
    phases: tuple[str, ...] = STEP_PHASES
    after: int = 0
    before: int | None = None

    def plans(self, points: Sequence[Point], fault: str, runs: int, rng: random.Random) -> tuple[Plan, ...]:
        """Return *runs* plans, or none if no point of the range was reached. Two may be equal: that is their share."""
        pools = list(_points.by_step(points, self.phases, self.after, self.before).values())
        return tuple(
            self._plan(pools, fault, random.Random(rng.getrandbits(SEED_BITS))) for _ in range(runs if pools else 0)
        )

    def _plan(self, pools: Sequence[list[Point]], fault: str, rng: random.Random) -> Plan:
        chosen: list[Point] = []
        while not chosen:
            for place, count in self._counts(len(pools), rng):
                pool = pools[place]
                chosen += sorted(rng.sample(pool, min(count, len(pool))), key=pool.index)
        return Plan(tuple(PlannedFault(fault, point) for point in chosen[: self.faults]))

    def _counts(self, steps: int, rng: random.Random) -> Iterator[tuple[int, int]]:
        """Yield each step of so many that is hit, and how often."""
        if self.process == "bernoulli":
            yield from ((step, 1) for step in range(steps) if rng.random() < self.rate)
            return
        now, counts = rng.expovariate(self.rate), dict[int, int]()
        while now < steps:
            counts[int(now)] = counts.get(int(now), 0) + 1
            now += rng.expovariate(self.rate)
        yield from counts.items()
