"""Explorers: turn the points that the reference run reached into plans. Pure functions of their arguments."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from chaos.plan import Plan, Point


class Explorer(Protocol):
    """A frozen dataclass; its fields say where."""

    def plans(self, points: Sequence[Point], fault: str, runs: int, rng: random.Random) -> tuple[Plan, ...]:
        """Return the plans that put *fault* at some of *points*.

        Args:
            points: what the reference run reached, in order, each with a step and a phase.
            fault: label of the fault in its scenario.
            runs: how many plans are wanted where the explorer could make any number.
            rng: the cell's own source of randomness.
        """
        ...
