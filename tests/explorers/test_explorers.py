"""Explorers: where faults are put."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.explorers import Explorer
from chaos.explorers.every import Every
from chaos.explorers.fixed import Fixed
from chaos.explorers.recovery import RECOVERY_PHASES, Recovery
from chaos.explorers.replay import Replay
from chaos.explorers.sampled import Sampled
from chaos.plan import PHASES, PROCESS_PHASES, STEP_PHASES, Plan, Point, parse_plan

POINTS = [Point(0, "before_load"), *(Point(step, phase) for step in range(10) for phase in STEP_PHASES)]
LAST = Point(9, "finished")
POINTS.append(LAST)

points_lists = st.lists(st.builds(Point, st.integers(0, 12), st.sampled_from(PHASES)), unique=True, max_size=60)
phases = st.lists(st.sampled_from(STEP_PHASES), min_size=1, unique=True).map(tuple)
bounds = st.integers(0, 12)
explorers = st.one_of(
    st.builds(Fixed, st.lists(bounds, min_size=1, unique=True).map(tuple), phases, st.booleans()),
    st.builds(Sampled, phases, bounds, st.none() | bounds),
    st.builds(Every, phases, bounds, st.none() | bounds, st.booleans()),
)


def hit(explorer: Explorer, points: list[Point] = POINTS, runs: int = 3, seed: int = 1) -> list[Point]:
    """Return where *explorer* puts a fault."""
    plans = explorer.plans(points, "kill", runs, random.Random(seed))
    assert all(len(plan.faults) == 1 and plan.faults[0].fault == "kill" for plan in plans)
    return [plan.faults[0].point for plan in plans]


@given(explorers, points_lists, st.integers(1, 40), st.integers())
def test_only_reached_points_of_the_range_are_hit(
    explorer: Fixed | Sampled | Every, points: list[Point], runs: int, seed: int
) -> None:
    found = hit(explorer, points, runs, seed)
    assert set(found) <= set(points)
    assert {point.phase for point in found} <= set(explorer.phases)
    if isinstance(explorer, Fixed):
        assert {point.step for point in found} <= set(explorer.steps)
    else:
        last = 12 if explorer.before is None else explorer.before
        assert all(explorer.after <= (point.step or 0) <= last for point in found)


@given(explorers, points_lists, st.integers(1, 40), st.integers())
def test_equal_seeds_give_equal_plans(explorer: Explorer, points: list[Point], runs: int, seed: int) -> None:
    assert hit(explorer, points, runs, seed) == hit(explorer, points, runs, seed)


@given(st.builds(Sampled, phases, bounds, st.none() | bounds), points_lists, st.integers(1, 100), st.integers())
def test_sampled_points_are_distinct_while_there_are_enough(
    explorer: Sampled, points: list[Point], runs: int, seed: int
) -> None:
    every = hit(Every(explorer.phases, explorer.after, explorer.before), points)
    found = hit(explorer, points, runs, seed)
    assert len(found) == (runs if every else 0)
    assert len(set(found)) == min(runs, len(every))


def test_a_step_with_many_phases_is_sampled_no_more_often() -> None:
    points = [Point(0, "after_act"), *(Point(1, phase) for phase in STEP_PHASES)]
    first = [hit(Sampled(), points, 1, seed)[0].step for seed in range(400)]
    assert 150 < first.count(0) < 250


def test_fixed_hits_each_step_and_phase_in_order() -> None:
    explorer = Fixed((8, 4), ("after_act", "before_act"))
    where = [(8, "before_act"), (8, "after_act"), (4, "before_act"), (4, "after_act")]
    assert hit(explorer, runs=1) == [Point(*each) for each in where]
    assert hit(Fixed((8, 99))) == [Point(8, "after_act")]
    assert hit(Fixed((99,))) == []


def test_fixed_steps_with_a_drawn_phase_fill_the_runs() -> None:
    found = hit(Fixed((8, 4), STEP_PHASES, draw=True), runs=6)
    assert [point.step for point in found] == [8, 4, 8, 4, 8, 4]
    assert len(set(found)) == 6
    assert len(hit(Fixed((1, 2, 3), STEP_PHASES, draw=True), runs=1)) == 3


def test_phases_of_the_process_belong_to_no_step() -> None:
    assert hit(Fixed((None,), ("finished", "after_load"))) == [Point(None, "finished")]


def test_every_hits_all_in_the_order_of_the_run() -> None:
    assert hit(Every()) == [point for point in POINTS if point.phase in STEP_PHASES]
    assert hit(Every(("after_act",), 3, 5)) == [Point(step, "after_act") for step in (3, 4, 5)]
    assert [point.step for point in hit(Every(draw=True))] == list(range(10))


def test_recovery_hits_a_later_incarnation_at_any_step() -> None:
    assert hit(Recovery(("after_load",))) == [Point(None, "after_load", recovery=True)] * 3
    assert hit(Recovery(("after_load", "finished"), draw=False)) == [
        Point(None, "after_load", recovery=True),
        Point(None, "finished", recovery=True),
    ]
    assert hit(Recovery(("after_act",), (4, 5), draw=False)) == [
        Point(4, "after_act", recovery=True),
        Point(5, "after_act", recovery=True),
    ]


@given(points_lists, st.integers(1, 20), st.integers())
def test_recovery_draws_distinct_phases_that_the_strategy_has(points: list[Point], runs: int, seed: int) -> None:
    found = hit(Recovery(), points, runs, seed)
    has = {*PROCESS_PHASES, *(point.phase for point in points)} & set(RECOVERY_PHASES)
    assert {point.phase for point in found} <= has
    assert len(set(found)) == min(runs, len(has))


@pytest.mark.parametrize("text", ["no fault", "kill@17/after_act+kill@recovery/after_load"])
def test_replay_is_the_plan_itself(text: str) -> None:
    plan = parse_plan(text)
    assert Replay(plan).plans([], "other", 9, random.Random(1)) == (plan,)


def test_all_have_defaults() -> None:
    assert Replay() == Replay(Plan())
    for explorer in (Fixed(), Sampled(), Every(), Recovery()):
        assert hit(explorer)
