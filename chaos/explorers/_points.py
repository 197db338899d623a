"""What the explorers share: choosing among the points that the reference run reached."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence

from chaos.plan import Plan, PlannedFault, Point


def plan(fault: str, point: Point) -> Plan:
    """Return the plan of one fault at one point."""
    return Plan((PlannedFault(fault, point),))


def by_step(
    points: Sequence[Point], phases: Collection[str], after: int = 0, before: int | None = None
) -> dict[int, list[Point]]:
    """Return the distinct points in *phases*, by step, of the steps from *after* to *before* inclusive."""
    pools: dict[int, list[Point]] = {}
    for point in dict.fromkeys(points):
        if point.step is None or point.phase not in phases:
            continue
        if point.step >= after and (before is None or point.step <= before):
            pools.setdefault(point.step, []).append(point)
    return pools


def shuffled(points: Sequence[Point], rng: random.Random) -> Iterator[Point]:
    """Yield *points* in random order, all of them before any comes again, without end."""
    while True:
        yield from rng.sample(points, len(points))
