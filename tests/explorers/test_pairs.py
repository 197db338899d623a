"""Pairs: a covering array of faults, their phases and places."""

from __future__ import annotations

import random
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.explorers import Seeker, Tried
from chaos.explorers.fixed import Fixed
from chaos.explorers.pairs import Pairs, _cover, _Row
from chaos.explorers.recovery import RECOVERY_PHASES, Recovery
from chaos.faults.kill import Kill
from chaos.plan import STEP_PHASES, Plan, Point
from tests.explorers.space import EVICT, LIMIT, MISSED, POINTS, RIGHT, further, spec, tried

THIRDS = {0: "early", 1: "early", 2: "middle", 3: "middle", 4: "late", 5: "late"}


def things(plan: Plan) -> tuple[str, str, str, str, str]:
    """Return the five things of *plan*."""
    one, other = plan.faults
    assert one.point.step is not None
    return one.fault, one.point.phase, THIRDS[one.point.step], other.fault, str(other.point)


@pytest.mark.parametrize("strength", [2, 3])
def test_any_so_many_things_come_together(strength: int) -> None:
    pairs = Pairs(strength)
    plans = tried(pairs, spec(pairs, EVICT))
    labels, places = ("kill", "evict"), [f"recovery/{phase}" for phase in RECOVERY_PHASES]
    covered = {each for plan in plans for each in combinations(enumerate(things(plan)), strength)}
    dimensions = [list(enumerate_as(number, values)) for number, values in enumerate(
        (labels, STEP_PHASES, ("early", "middle", "late"), labels, places)
    )]  # fmt: skip
    wanted = {each for some in combinations(dimensions, strength) for each in product(*some)}
    assert wanted <= covered
    most = {2: len(STEP_PHASES) * len(places), 3: len(STEP_PHASES) * len(places) * 3}[strength]
    assert most <= len(plans) <= most * 1.35, "no array can be smaller than its two or three largest dimensions"


def enumerate_as(number: int, values: tuple[str, ...] | list[str]) -> list[tuple[int, str]]:
    return [(number, value) for value in values]


def test_strength_5_is_every_plan_but_for_the_step() -> None:
    pairs = Pairs(5, ("before_act", "after_act"))
    plans = tried(pairs, spec(pairs, EVICT))
    assert len({things(plan) for plan in plans}) == len(plans) == 2 * 2 * 3 * 2 * 4


def test_what_leaves_the_agent_alive_is_followed_where_it_stands_again() -> None:
    pairs = Pairs()
    plans = tried(pairs, spec(pairs, LIMIT))
    alive = [plan for plan in plans if plan.faults[0].fault == "rate_limit"]
    assert {plan.faults[1].fault for plan in alive} == {"kill", "rate_limit"}
    for plan in plans:
        one, other = plan.faults
        assert (one.point == other.point) == (one.fault == "rate_limit")
        assert other.point.recovery == (one.fault == "kill")


def test_a_fault_that_says_where_it_hits_has_no_other_part() -> None:
    pairs = Pairs(5)
    again = further("again", Kill(), Recovery(("before_load", "after_load"), draw=False))
    early = further("early", Kill(), Fixed((0,), ("after_act",)))
    plans = tried(pairs, spec(pairs, again, early))
    firsts = {plan.faults[0].fault for plan in plans}
    assert firsts == {"kill", "early"}
    assert {str(p.faults[1].point) for p in plans if p.faults[1].fault == "again"} == {
        "recovery/before_load",
        "recovery/after_load",
    }
    assert {str(p.faults[0].point) for p in plans if p.faults[0].fault == "early"} == {"0/after_act"}


def test_after_the_last_commit_no_step_is_recovered() -> None:
    pairs = Pairs(5, after=5)
    ended = [plan for plan in tried(pairs, spec(pairs)) if plan.faults[0].point == Point(5, "after_commit")]
    assert {plan.faults[1].point.phase for plan in ended} == {"before_load", "after_load"}


def test_a_pair_that_missed_is_tried_at_other_steps_and_told() -> None:
    pairs = Pairs(2, ("after_act",))
    seen: list[Plan] = []

    def attempt(plan: Plan) -> Tried:
        seen.append(plan)
        return MISSED if plan.faults[1].point.phase == "after_act" else RIGHT

    covered = pairs.seek(POINTS, spec(pairs), 1, random.Random(1), attempt)
    missed = [plan for plan in seen if plan.faults[1].point.phase == "after_act"]
    assert len(missed) == len(set(missed)) > len({things(plan) for plan in missed})
    assert covered.gap.startswith("never both hit: kill@")
    assert covered.told == "9 pairs, any 2 things together"
    assert pairs.seek([], spec(pairs), 1, random.Random(1), attempt) == ("", "")


rows = st.lists(st.builds(_Row, *(st.sampled_from("abc") for _ in range(5))), unique=True, max_size=60)


@settings(max_examples=40)
@given(rows, st.integers(2, 5))
def test_the_cover_has_all_that_the_rows_have_and_no_row_for_nothing(found: list[_Row], strength: int) -> None:
    def all_of(some: list[_Row]) -> set[object]:
        return {each for row in some for each in combinations(enumerate(row), strength)}

    chosen = _cover(found, strength)
    assert all_of(chosen) == all_of(found)
    for number in range(len(chosen)):
        assert all_of(chosen[:number]) != all_of(chosen[: number + 1])


@given(st.integers(0, 2**32))
@settings(max_examples=10)
def test_equal_seeds_give_equal_plans(seed: int) -> None:
    pairs = Pairs()
    assert tried(pairs, spec(pairs, LIMIT), seed=seed) == tried(pairs, spec(pairs, LIMIT), seed=seed)
    plans = pairs.plans(POINTS, "kill", 1, random.Random(seed))
    assert plans == pairs.plans(POINTS, "kill", 9, random.Random(seed))
    assert {planned.fault for plan in plans for planned in plan.faults} == {"kill"}


def test_it_seeks() -> None:
    assert isinstance(Pairs(), Seeker)
