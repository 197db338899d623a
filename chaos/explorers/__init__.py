"""Explorers: turn the points that the reference run reached into plans. Pure functions of their arguments."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from chaos.plan import Plan, Point

if TYPE_CHECKING:
    from chaos.scenario import FaultSpec


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


class Tried(NamedTuple):
    """What became of a plan: whether all of its faults landed, and what broke that the scenario does not expect."""

    landed: bool
    broke: frozenset[str]  # names of checks; a verdict's name where no check stands for it; empty: as wanted
    unreached: int = 0  # how many of its last faults never hit: the agent came to no such point


class Covered(NamedTuple):
    """What a seeker came to: *told* in a phrase, and the *gap* to all that was asked for, "" if there is none."""

    told: str
    gap: str = ""


Attempt = Callable[[Plan], Tried]
"""Runs a plan for real, once more each time, and keeps its result among those of the cell.

A fault that the agent comes to no point for is not held against the run, which is judged by those that hit.
"""


@runtime_checkable
class Seeker(Protocol):
    """An explorer that chooses each plan by what became of those before it."""

    def seek(
        self, points: Sequence[Point], fault: FaultSpec, runs: int, rng: random.Random, attempt: Attempt
    ) -> Covered | None:
        """Try plans of *fault*, and of what follows it, until enough is known; say what that is.

        Args:
            points: what the reference run reached, in order.
            fault: the first of each plan; this may be the explorer of one that follows it.
            runs: how many runs are wanted at most, where the explorer could make any number.
            rng: the cell's own source of randomness.
        """
        ...
