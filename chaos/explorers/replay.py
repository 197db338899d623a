"""One given plan: how a failure is run again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from chaos.plan import Plan, Point


@dataclass(frozen=True)
class Replay:
    """Return exactly *plan*, whatever was reached and asked for."""

    plan: Plan = field(default_factory=Plan)

    def plans(self, points: Sequence[Point], fault: str, runs: int, rng: random.Random) -> tuple[Plan, ...]:
        """Return the plan, once."""
        return (self.plan,)
