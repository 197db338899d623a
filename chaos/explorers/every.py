"""Exhaustive: every step and phase that the reference reached."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.explorers import _points
from chaos.plan import STEP_PHASES, Plan, Point


@dataclass(frozen=True)
class Every:
    """Hit every reached step from *after* to *before* in each of *phases*, however many *runs* are wanted.

    Args:
        phases: names of phases.
        after: first step to hit.
        before: last step to hit; None is the last of the run.
        draw: hit each step once, in one phase drawn from *phases*.
    """

    phases: tuple[str, ...] = STEP_PHASES
    after: int = 0
    before: int | None = None
    draw: bool = False

    def plans(self, points: Sequence[Point], fault: str, runs: int, rng: random.Random) -> tuple[Plan, ...]:
        """Return one plan for each point, in the order they were reached."""
        pools = _points.by_step(points, self.phases, self.after, self.before)
        if self.draw:
            return tuple(_points.plan(fault, rng.choice(pool)) for pool in pools.values())
        return tuple(_points.plan(fault, point) for pool in pools.values() for point in pool)
