"""The search, on made-up predicates: what comes out fails, can be made no simpler, and took no more calls than said."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from chaos import seeds
from chaos.explorers.recovery import RECOVERY_PHASES
from chaos.faults.evict import Evict
from chaos.faults.kill import Kill
from chaos.faults.oom_kill import OomKill
from chaos.faults.rate_limit import RateLimit
from chaos.plan import STEP_PHASES, Point
from chaos.shrink import Spent, descent, shrink
from chaos.shrink.candidate import Candidate, Hit
from chaos.shrink.fields import written
from chaos.shrink.simpler import Simplifications
from chaos.targets import Target
from chaos.targets.reference import MIN_STEPS, Reference

ENOUGH = 5_000
KINDS = {"kill": Kill(), "oom_kill": OomKill(), "evict": Evict()}
Predicate = Callable[[Candidate], bool]


class Flat:
    """A ground without runs: all steps have all phases, and a shorter workload has its points where they were."""

    def points(self, target: Target) -> Sequence[Point]:
        return [Point(step, phase) for step in range(target.steps) for phase in STEP_PHASES]

    def moved(self, points: Sequence[Point], old: Target, new: Target) -> Iterable[tuple[Point, ...]]:
        yield tuple(points)

    def kinds(self, hit: Hit) -> Iterable[Hit]:
        known = list(KINDS)
        for kind in known[: known.index(hit.kind)] if hit.kind in known else []:
            yield Hit(kind, kind, KINDS[kind], hit.point)


SIMPLER = Simplifications(Flat())

first = st.builds(Point, st.integers(0, 13), st.sampled_from(STEP_PHASES))
later = first | st.builds(Point, st.none(), st.sampled_from(RECOVERY_PHASES), st.just(value=True))
faults = st.sampled_from(
    [("kill", Kill()), ("evict", Evict(2.0)), ("oom_kill", OomKill("process")), ("rate_limit", RateLimit(5, 0.3))]
)


def hits(point: st.SearchStrategy[Point]) -> st.SearchStrategy[Hit]:
    return st.builds(lambda fault, at: Hit(fault[0], fault[0], fault[1], at), faults, point)


candidates = st.builds(
    lambda one, more, steps, data, run: Candidate((one, *more), Reference(steps=steps, bytes_per_step=data), run),
    hits(first),
    st.lists(hits(later), max_size=2),
    st.integers(14, 20),
    st.sampled_from([0, 3]),
    st.integers(0, 2),
)


@st.composite
def predicates(draw: st.DrawFn) -> tuple[Candidate, Predicate]:
    """Draw a start and a predicate under which it fails: one that asks for enough of everything, or one by chance."""
    start = draw(candidates)
    if draw(st.booleans()):
        share, seed = draw(st.integers(1, 60)), draw(st.integers(0, 1000))
        return start, lambda each: each == start or seeds.derive(seed, each) % 100 < share
    needed = draw(st.integers(1, len(start.hits)))
    step = draw(st.integers(0, start.hits[0].point.step or 0))
    requests = draw(st.integers(1, 5))
    steps = draw(st.integers(MIN_STEPS, start.target.steps))

    def fails(each: Candidate) -> bool:
        bursts = [hit.fault.requests for hit in each.hits if isinstance(hit.fault, RateLimit)]
        enough = len(each.hits) >= needed and each.target.steps >= steps
        return enough and (each.hits[0].point.step or 0) >= step and all(burst >= requests for burst in bursts)

    return start, fails


def measure(candidate: Candidate) -> tuple[object, ...]:
    """Return what each simplification makes smaller, the most important first."""
    points = [hit.point for hit in candidate.hits]
    kinds = [*KINDS, "rate_limit"]
    return (
        len(points),
        candidate.run,
        candidate.target.steps,
        written(candidate.target).get("bytes_per_step", 200),
        sum(kinds.index(hit.kind) for hit in candidate.hits),
        sum(len(written(hit.fault)) for hit in candidate.hits)
        + sum(hit.fault.requests for hit in candidate.hits if isinstance(hit.fault, RateLimit)) * 10,
        sum(-1 if point.step is None else point.step for point in points),
        sum((*RECOVERY_PHASES, "finished").index(point.phase) for point in points),
    )


@given(candidates)
def test_every_simplification_is_simpler(candidate: Candidate) -> None:
    for simpler in SIMPLER.every(candidate):
        assert measure(simpler) < measure(candidate)


@given(candidates)
def test_the_quick_passes_try_nothing_that_the_last_one_does_not(candidate: Candidate) -> None:
    *quick, every = SIMPLER.passes
    everything = set(every(candidate))
    for simpler in quick:
        assert set(simpler(candidate)) <= everything


@settings(max_examples=60)
@given(predicates())
def test_what_comes_out_fails_and_no_single_simplification_of_it_does(drawn: tuple[Candidate, Predicate]) -> None:
    start, fails = drawn
    found = shrink(start, SIMPLER.passes, fails, ENOUGH)
    assert found.proven
    assert fails(found.smallest)
    assert [simpler for simpler in SIMPLER.every(found.smallest) if fails(simpler)] == []
    assert shrink(found.smallest, SIMPLER.passes, fails, ENOUGH).smallest == found.smallest
    assert shrink(start, SIMPLER.passes, fails, ENOUGH) == found


@settings(max_examples=60)
@given(predicates(), st.integers(0, 60))
def test_no_more_calls_than_allowed(drawn: tuple[Candidate, Predicate], most: int) -> None:
    start, fails = drawn
    called: list[Candidate] = []

    def counted(candidate: Candidate) -> bool:
        called.append(candidate)
        return fails(candidate)

    found = shrink(start, SIMPLER.passes, counted, most)
    assert len(called) == len(set(called)) == found.calls <= most
    assert fails(found.smallest)
    whole = shrink(start, SIMPLER.passes, fails, ENOUGH)
    assert found.proven == (whole.calls <= most)
    assert not found.proven or found == whole


def test_an_end_of_the_time_leaves_what_was_found() -> None:
    left = iter([True, True, False])

    def fails(number: int) -> bool:
        if not next(left):
            raise Spent
        return True

    found = shrink(100, [lambda number: [number - 1] if number else []], fails, ENOUGH)
    assert (found.smallest, found.calls, found.proven) == (98, 2, False)


@given(st.integers(0, 500), st.integers(0, 500))
def test_a_threshold_is_found_by_bisection(needed: int, beyond: int) -> None:
    start = needed + beyond
    found = shrink(start, [lambda number: descent(number, 0)], lambda number: number >= needed, ENOUGH)
    assert (found.smallest, found.proven) == (needed, True)
    assert found.calls <= (start.bit_length() + 1) ** 2


def test_a_needle_is_found_in_the_end() -> None:
    """One phase of one step, far before the one that was found: bisection alone would pass it by."""
    start = Candidate((Hit("kill", "kill", Kill(), Point(13, "after_commit")),), Reference(steps=MIN_STEPS + 4))
    needle = replace(start, hits=(replace(start.hits[0], point=Point(3, "after_commit")),))
    found = shrink(start, SIMPLER.passes, lambda each: each in (start, needle), ENOUGH)
    assert (found.smallest, found.proven) == (needle, True)


def test_faults_that_belong_together_move_together() -> None:
    """A kill in the same step as a refusal: neither can be moved alone."""
    at = random.Random(1).randint(5, 13)
    limit = Hit("rate_limit", "rate_limit", RateLimit(2), Point(at, "before_think"))
    start = Candidate((limit, Hit("kill", "kill", Kill(), Point(at, "before_think"))), Reference(steps=MIN_STEPS + 4))

    def fails(each: Candidate) -> bool:
        steps = [hit.point.step for hit in each.hits]
        return len(steps) == 2 and steps[0] == steps[1]

    found = shrink(start, SIMPLER.passes, fails, ENOUGH)
    assert [str(hit.point) for hit in found.smallest.hits] == ["0/before_think", "0/before_think"]
    assert (found.smallest.target.steps, found.smallest.hits[0].fault) == (MIN_STEPS, RateLimit(1))


def test_a_fault_of_a_recovery_that_stays_alone_hits_the_first_incarnation() -> None:
    start = Candidate(
        (
            Hit("kill", "kill", Kill(), Point(4, "after_act")),
            Hit("rate_limit", "rate_limit", RateLimit(1), Point(None, "before_think", recovery=True)),
        ),
        Reference(steps=MIN_STEPS),
    )
    found = shrink(start, SIMPLER.passes, lambda each: each.hits[-1].kind == "rate_limit", ENOUGH)
    assert [(hit.kind, str(hit.point)) for hit in found.smallest.hits] == [("rate_limit", "0/before_think")]
