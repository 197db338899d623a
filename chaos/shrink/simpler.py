"""What is simpler than what, in one well-founded order: each simplification makes the first that it changes smaller of

1. the number of faults
2. the number of the run (to 0)
3. the workload: the target's `steps`, then its `bytes_per_step`
4. a fault: its kind, its numbers of which less is simpler, its other fields that are not at their defaults
5. a point: its step, then its phase

A shorter workload moves the points to where it does the same (`Ground.moved`). No fault is moved before the one that
hits before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Protocol

from chaos.explorers.recovery import RECOVERY_PHASES
from chaos.plan import STEP_PHASES, Point
from chaos.shrink import Simpler, descent
from chaos.shrink.candidate import Candidate, Hit
from chaos.shrink.fields import plainer, shorter
from chaos.targets import Target


class Ground(Protocol):
    """What runs have shown, and what the machine can do."""

    def points(self, target: Target) -> Sequence[Point]:
        """Return what the crash-free run of *target* reached, in order; nothing if it is unfit to compare with."""
        ...

    def moved(self, points: Sequence[Point], old: Target, new: Target) -> Iterable[tuple[Point, ...]]:
        """Yield where *points* of a run of *old* may be in one of *new*, the most likely first."""
        ...

    def kinds(self, hit: Hit) -> Iterable[Hit]:
        """Yield *hit* with each simpler kind of fault that can be injected here, the simplest first."""
        ...


class Simplifications:
    """The passes of a search on some *ground*: quick ones, and the last with every single simplification."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    @property
    def passes(self) -> tuple[Simpler[Candidate], ...]:
        quick = (self.fewer, self.first_run, self.shorter, self.plainer, self.earlier_quick, self.phases)
        return (*quick, self.every)

    def every(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield every single simplification of *candidate*."""
        return chain(
            self.fewer(candidate),
            self.first_run(candidate),
            self.shorter(candidate),
            self.plainer(candidate),
            self.earlier(candidate),
            self.phases(candidate),
        )

    def fewer(self, candidate: Candidate) -> Iterator[Candidate]:
        """Leave out all faults but one, and leave out one."""
        many = len(candidate.hits)
        for keep in range(many if many > 2 else 0):
            yield from self._kept(candidate, (keep,))
        for out in range(many if many > 1 else 0):
            yield from self._kept(candidate, tuple(place for place in range(many) if place != out))

    def _kept(self, candidate: Candidate, places: tuple[int, ...]) -> Iterator[Candidate]:
        """Yield *candidate* with the faults at *places*; a first one during recovery hits the first incarnation."""
        first, *rest = (candidate.hits[place] for place in places)
        if not first.point.recovery:
            yield replace(candidate, hits=(first, *rest))
            return
        reached, crashed = self._ground.points(candidate.target), candidate.hits[0].point.step
        steps = [first.point.step] if first.point.step is not None or crashed is None else [crashed, crashed + 1]
        for step in steps:  # a recovery begins with the step that crashed, or with the one behind its commit
            if (point := Point(step, first.point.phase)) in reached:
                yield replace(candidate, hits=(replace(first, point=point), *rest))

    def first_run(self, candidate: Candidate) -> Iterator[Candidate]:
        """Take the chance of run 0, which a scenario of one run has."""
        if candidate.run:
            yield replace(candidate, run=0)

    def shorter(self, candidate: Candidate) -> Iterator[Candidate]:
        """Shorten the workload, then what it writes; the points go where the shorter one does the same."""
        old = _points(candidate.hits)
        for target in shorter(candidate.target):
            reached = set(self._ground.points(target))
            for points in dict.fromkeys(self._ground.moved(old, candidate.target, target) if reached else ()):
                if all(point.recovery or point in reached for point in points):
                    yield _at(replace(candidate, target=target), points)

    def plainer(self, candidate: Candidate) -> Iterator[Candidate]:
        """Make one fault simpler: another kind, a smaller number, a field at its default."""
        for place, hit in enumerate(candidate.hits):
            for simpler in chain(self._ground.kinds(hit), (replace(hit, fault=fault) for fault in plainer(hit.fault))):
                hits = (*candidate.hits[:place], simpler, *candidate.hits[place + 1 :])
                yield replace(candidate, hits=hits)

    def earlier_quick(self, candidate: Candidate) -> Iterator[Candidate]:
        """Move faults to some earlier steps: for a failure that needs a step or a later one, this is a bisection."""
        return self._earlier(candidate, quick=True)

    def earlier(self, candidate: Candidate) -> Iterator[Candidate]:
        """Move a fault, alone or together with all that follow it, to each earlier step."""
        return self._earlier(candidate, quick=False)

    def _earlier(self, candidate: Candidate, *, quick: bool) -> Iterator[Candidate]:
        hits = candidate.hits
        reached = tuple(dict.fromkeys(self._ground.points(candidate.target)))
        for place, hit in enumerate(hits):
            step = hit.point.step
            if step is None:
                continue
            if hit.point.recovery and hit.point.phase in STEP_PHASES:
                yield _moved(candidate, place, replace(hit.point, step=None))
            for last in dict.fromkeys((len(hits), place + 1)):  # with those that follow first: they belong together
                for fewer in _steps(hit.point, reached, quick=quick):
                    moved = tuple(_back(each.point, step - fewer) for each in hits[place:last])
                    if all(point.recovery or point in reached for point in moved):
                        points = (*_points(hits[:place]), *moved, *_points(hits[last:]))
                        if _in_order(points, reached):
                            yield _at(candidate, points)

    def phases(self, candidate: Candidate) -> Iterator[Candidate]:
        """Move one fault to an earlier phase of its step, or of its recovery."""
        reached = tuple(dict.fromkeys(self._ground.points(candidate.target)))
        for place, hit in enumerate(candidate.hits):
            known = RECOVERY_PHASES if hit.point.recovery and hit.point.step is None else STEP_PHASES
            for phase in known[: known.index(hit.point.phase)] if hit.point.phase in known else ():
                point = replace(hit.point, phase=phase)
                found = _moved(candidate, place, point)
                if (point.recovery or point in reached) and _in_order(_points(found.hits), reached):
                    yield found


def _points(hits: Iterable[Hit]) -> tuple[Point, ...]:
    return tuple(hit.point for hit in hits)


def _at(candidate: Candidate, points: Iterable[Point]) -> Candidate:
    """Return *candidate* with its faults at *points*."""
    hits = tuple(replace(hit, point=point) for hit, point in zip(candidate.hits, points, strict=True))
    return replace(candidate, hits=hits)


def _moved(candidate: Candidate, place: int, point: Point) -> Candidate:
    points = [hit.point for hit in candidate.hits]
    points[place] = point
    return _at(candidate, points)


def _back(point: Point, steps: int) -> Point:
    """Return *point* so many *steps* earlier; one that belongs to no step stays."""
    return point if point.step is None else replace(point, step=max(0, point.step - steps))


def _steps(point: Point, reached: Sequence[Point], *, quick: bool) -> Iterator[int]:
    """Yield earlier steps than that of *point* which have its phase: a descent to the last, then all the others."""
    known = sorted({each.step for each in reached if each.phase == point.phase and each.step is not None})
    before = [step for step in known if point.step is not None and step < point.step]
    yield from (leaps := [before[place] for place in descent(len(before), 0)])
    if not quick:
        yield from (step for step in before if step not in leaps)


def _in_order(points: Sequence[Point], reached: Sequence[Point]) -> bool:
    """Tell whether no point of the first incarnation comes before the one that hits before it."""
    places = [reached.index(point) for point in points if not point.recovery and point in reached]
    return places == sorted(places)
