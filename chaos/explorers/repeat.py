"""Repeat: the plans of another explorer, each run several times, which must all go the same way."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from chaos.explorers import Explorer
from chaos.explorers.sampled import Sampled
from chaos.plan import Plan, Point


@dataclass(frozen=True)
class Repeat:
    """Have each plan of *plain* run *times* times, with the same random choices, and compare the runs."""

    plain: Explorer = field(default_factory=Sampled)
    times: int = 2

    def plans(self, points: Sequence[Point], fault: str, runs: int, rng: random.Random) -> tuple[Plan, ...]:
        """Return the plans, each once: what is compared are runs of one and the same."""
        return self.plain.plans(points, fault, runs, rng)
