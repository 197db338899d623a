"""Where the points of a run are in a shorter one: steps that have the same effects are the same steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from chaos.events.seen import Asked, Effected, Reached
from chaos.plan import STEP_PHASES, Point
from chaos.record import Record

Landmarks = Mapping[tuple[str, int], int]
"""Effect, and the how-manieth of its kind it is, to the step that had it."""


def moved(points: Sequence[Point], old: Record, steps: int, new: Record, fewer: int) -> Iterator[tuple[Point, ...]]:
    """Yield where *points* of the run *old*, of so many *steps*, may be in the run *new*, which has *fewer*.

    First beside the same landmarks, then at the same steps, then as far from the end.
    """
    if steps == fewer:
        yield tuple(points)
        return
    there, here = landmarks(old), landmarks(new)
    common = {step: here[mark] for mark, step in there.items() if mark in here}
    yield from (
        tuple(_placed(point, place, fewer) for point in points)
        for place in (
            lambda step: _beside(step, common),
            lambda step: step,
            lambda step: step - steps + fewer,
        )
    )


def landmarks(run: Record) -> Landmarks:
    """Return which step of *run* had which effect."""
    found: dict[tuple[str, int], int] = {}
    seen: Counter[str] = Counter()
    step = 0
    for event in run.events:
        if isinstance(event, Reached) and event.phase in STEP_PHASES:
            step = event.step
        elif isinstance(event, Asked):
            step = max(step, event.turn)
        elif isinstance(event, Effected):
            kind = f"{event.service}.{event.operation}"
            found[kind, seen[kind]] = step
            seen[kind] += 1
    return found


def _beside(step: int, common: Mapping[int, int]) -> int:
    """Return where *step* is as seen from the last landmark before it; *common* maps old steps to new ones."""
    before = max((mark for mark in common if mark <= step), default=None)
    return step if before is None else common[before] + step - before


def _placed(point: Point, place: Callable[[int], int], steps: int) -> Point:
    """Return *point* at its new place, within so many *steps*; system calls and what belongs to no step stay."""
    if point.step is None or point.phase not in STEP_PHASES:
        return point
    return replace(point, step=min(max(place(point.step), 0), steps - 1))
