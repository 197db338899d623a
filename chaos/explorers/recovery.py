"""While it recovers: points of a later incarnation, for the faults that follow a first one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.explorers import _points
from chaos.plan import PROCESS_PHASES, STEP_PHASES, Plan, Point

RECOVERY_PHASES = ("before_load", "after_load", *STEP_PHASES)
"""The phases that a recovery goes through, in order; `finished` is its end and has to be asked for by name."""


@dataclass(frozen=True)
class Recovery:
    """Hit an incarnation after the first, at whichever step it comes back to.

    Args:
        phases: names of phases; those of a step are used only if the reference has them.
        steps: steps to wait for; None is the first that comes.
        draw: hit one phase drawn from *phases* in each run, instead of each in turn.
    """

    phases: tuple[str, ...] = RECOVERY_PHASES
    steps: tuple[int | None, ...] = (None,)
    draw: bool = True

    def plans(self, points: Sequence[Point], fault: str, runs: int, rng: random.Random) -> tuple[Plan, ...]:
        """Return *runs* drawn plans, or one for each step and phase."""
        reached = {*PROCESS_PHASES, *(point.phase for point in points)}
        phases = [phase for phase in self.phases if phase in reached]
        pool = [Point(step, phase, recovery=True) for step in self.steps for phase in phases]
        if not pool:
            return ()
        chosen = itertools.islice(_points.shuffled(pool, rng), runs) if self.draw else iter(pool)
        return tuple(_points.plan(fault, point) for point in chosen)
