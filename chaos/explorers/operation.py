"""Operations: the n-th request, effect or checkpoint write, of agents that announce nothing."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.explorers import _points
from chaos.plan import Plan, Point


@dataclass(frozen=True)
class Operation:
    """Hit while operations of the kind *operation* are held; how many there are, the reference run has counted.

    Args:
        operation: "model_call", "effect", "checkpoint_write", ... (`chaos.plan.COUNTED`).
        n: numbers of operations, from 1; none: draw one for each run.
        every: hit each operation that the reference made, however many runs are wanted.
        recovery: hit the operations numbered *n* of an incarnation after the first.
    """

    operation: str = "model_call"
    n: tuple[int, ...] = ()
    every: bool = False
    recovery: bool = False

    def plans(self, points: Sequence[Point], fault: str, runs: int, rng: random.Random) -> tuple[Plan, ...]:
        """Return one plan for each operation asked for; one that the reference did not make yields none."""
        if self.recovery:
            return tuple(_points.plan(fault, Point(number, self.operation, recovery=True)) for number in self.n)
        made = [point for point in dict.fromkeys(points) if point.phase == self.operation]
        if self.n:
            made = [point for point in made if point.step in self.n]
        elif made and not self.every:
            made = list(itertools.islice(_points.shuffled(made, rng), runs))
        return tuple(_points.plan(fault, point) for point in made)
