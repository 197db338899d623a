"""What whole plans are made of: the faults of a cell, and the places that each of them may have."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.explorers import _points
from chaos.explorers.recovery import RECOVERY_PHASES
from chaos.explorers.sampled import Sampled
from chaos.plan import PROCESS_PHASES, Point
from chaos.sandbox import Survival

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.faults import Fault
    from chaos.scenario import FaultSpec

ASKING = "before_think"
"""Where an agent that got no answer stands again before it asks once more: alive it comes to no other point twice."""

ANYWHERE = Sampled()
"""Where a fault may hit that says nothing about it."""


@dataclass(frozen=True)
class Member:
    """A fault of the cell: the places *first* that the reference reached, in order, and those *recovering*.

    Args:
        vary: fields of *fault* that may have other values, each with these values.
    """

    label: str
    fault: Fault
    vary: tuple[tuple[str, tuple[object, ...]], ...]
    first: tuple[Point, ...]
    recovering: tuple[Point, ...]

    @property
    def ends(self) -> bool:
        """Whether the agent ends by it, so that a recovery follows."""
        return self.fault.survival is not Survival.NONE


def members(
    points: Sequence[Point], spec: FaultSpec, phases: Collection[str], after: int = 0, before: int | None = None
) -> tuple[Member, ...]:
    """Return *spec* and all that stands under its `then`, each with its places.

    One that says where it hits has its places there; all others have those in *phases* of the steps from *after* to
    *before*, and the same phases and those of coming up of whatever recovers.
    """
    pools = _points.by_step(points, phases, after, before)
    first = tuple(point for point in dict.fromkeys(points) if point in pools.get(_step(point), ()))
    reached = {point.phase for point in points if point.phase in phases} | set(PROCESS_PHASES)
    recovering = tuple(Point(None, phase, recovery=True) for phase in RECOVERY_PHASES if phase in reached)
    found = []
    for each in _all(spec):
        if each is spec or each.at == ANYWHERE:
            found.append(Member(each.label, each.fault, each.vary, first, recovering))
            continue
        wanted = len(points) + len(RECOVERY_PHASES)  # however it draws, all of its places are among so many
        plans = each.at.plans(points, each.label, wanted, random.Random(0))
        own = sorted(dict.fromkeys(plan.faults[0].point for plan in plans), key=_Order(points))
        there = tuple(point for point in own if not point.recovery)
        found.append(Member(each.label, each.fault, each.vary, there, tuple(p for p in own if p.recovery)))
    return tuple(one for one in found if one.first or one.recovering)


def _step(point: Point) -> int:
    return -1 if point.step is None else point.step


def _all(spec: FaultSpec) -> Iterator[FaultSpec]:
    yield spec
    for each in spec.then:
        yield from _all(each)


class _Order:
    """Sorts places as the reference reached them, then those of a recovery by name."""

    def __init__(self, points: Sequence[Point]) -> None:
        self._places = {point: place for place, point in enumerate(dict.fromkeys(points))}

    def __call__(self, point: Point) -> tuple[int, str]:
        return self._places.get(point, len(self._places)), str(point)
