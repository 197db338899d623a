"""System calls on the durable zone: the n-th write, fsync or rename, of agents that announce nothing."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.explorers import _points
from chaos.plan import Plan, Point


@dataclass(frozen=True)
class Syscall:
    """Hit before calls of the kind *syscall* are executed; how many there are, the reference run has counted.

    Args:
        syscall: "write", "fsync" or "rename" (`chaos.plan.SYSCALLS`).
        n: numbers of calls, from 1; none: draw one for each run.
        every: hit each call that the reference made, however many runs are wanted.
        recovery: hit the calls numbered *n* of an incarnation after the first.
    """

    syscall: str = "fsync"
    n: tuple[int, ...] = ()
    every: bool = False
    recovery: bool = False

    def plans(self, points: Sequence[Point], fault: str, runs: int, rng: random.Random) -> tuple[Plan, ...]:
        """Return one plan for each call that is asked for; one that the reference did not make yields none."""
        if self.recovery:
            return tuple(_points.plan(fault, Point(number, self.syscall, recovery=True)) for number in self.n)
        made = [point for point in dict.fromkeys(points) if point.phase == self.syscall]
        if self.n:
            made = [point for point in made if point.step in self.n]
        elif made and not self.every:
            made = list(itertools.islice(_points.shuffled(made, rng), runs))
        return tuple(_points.plan(fault, point) for point in made)
