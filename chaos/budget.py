"""The time that a campaign may take: what has not begun when it is used up does not begin."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


class Spent(BaseException):
    """The time is used up. No Exception: explorers that try plans, and checks, take those for failures of the agent."""


@dataclass(frozen=True)
class Budget:
    """So many *seconds*, until *ends* on *clock*; 0: as many as it takes.

    Args:
        clock: seconds that only grow, and are the same for all processes of a machine.
    """

    seconds: float = 0.0
    ends: float = 0.0
    clock: Callable[[], float] = time.monotonic

    @property
    def spent(self) -> bool:
        """Whether the time is used up."""
        return self.seconds > 0 and self.clock() >= self.ends

    def check(self) -> None:
        """Raise Spent if the time is used up."""
        if self.spent:
            raise Spent(str(self))

    def __str__(self) -> str:
        from chaos.scenario.units import format_seconds

        return f"the budget of {format_seconds(self.seconds)} is used up"


UNLIMITED = Budget()


def begun(seconds: float, clock: Callable[[], float] = time.monotonic) -> Budget:
    """Return a budget of so many *seconds* that begins now."""
    return Budget(seconds, clock() + seconds, clock)
