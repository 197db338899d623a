"""System calls on the durable zone: the n-th write, fsync or rename, of agents that announce nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.explorers.operation import Operation
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
        return Operation(self.syscall, self.n, self.every, self.recovery).plans(points, fault, runs, rng)
