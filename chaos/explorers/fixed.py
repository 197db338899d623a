"""Named steps: a fault at step 17, or at steps 4 and 8."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.explorers import _points
from chaos.plan import Plan, Point


@dataclass(frozen=True)
class Fixed:
    """Hit each of *steps* in each of *phases*, once; what the reference did not reach yields no plan.

    Args:
        steps: numbers of steps; None is the process itself, for the phases that belong to no step.
        phases: names of phases.
        draw: hit a step in one phase drawn from *phases* instead, until there are enough runs.
    """

    steps: tuple[int | None, ...] = (0,)
    phases: tuple[str, ...] = ("after_act",)
    draw: bool = False

    def plans(self, points: Sequence[Point], fault: str, runs: int, rng: random.Random) -> tuple[Plan, ...]:
        """Return one plan for each step and phase that was reached, in the order of *steps*."""
        if None in self.steps:
            reached = {point.phase for point in points}
            return tuple(_points.plan(fault, Point(None, name)) for name in self.phases if name in reached)
        pools = _points.by_step(points, self.phases)
        pools = {step: pools[step] for step in self.steps if step is not None and step in pools}
        if not pools or not self.draw:
            return tuple(_points.plan(fault, point) for pool in pools.values() for point in pool)
        endless = {step: _points.shuffled(pool, rng) for step, pool in pools.items()}
        turns = itertools.islice(itertools.cycle(endless.values()), max(runs, len(endless)))
        return tuple(_points.plan(fault, next(draws)) for draws in turns)
