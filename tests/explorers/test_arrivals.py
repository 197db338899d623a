"""Arrivals: faults at a rate, and the explorers that plan in one go: equal seeds, equal plans."""

from __future__ import annotations

import random
from statistics import mean, variance

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.explorers.arrivals import Arrivals, Process
from chaos.explorers.repeat import Repeat
from chaos.explorers.sampled import Sampled
from chaos.plan import STEP_PHASES, Plan, Point
from tests.explorers.space import POINTS

LONG = [Point(step, phase) for step in range(50) for phase in STEP_PHASES]
ALL = 1000  # more faults than there are

arrivals = st.builds(
    Arrivals,
    st.sampled_from(["bernoulli", "poisson"]),
    st.floats(0.01, 1.0),
    st.integers(1, 4),
    st.lists(st.sampled_from(STEP_PHASES), min_size=1, unique=True).map(tuple),
    st.integers(0, 3),
    st.none() | st.integers(3, 6),
)


@settings(max_examples=60)
@given(arrivals, st.integers(1, 8), st.integers(0, 2**32))
def test_arrivals_come_in_order_at_points_of_the_range(explorer: Arrivals, runs: int, seed: int) -> None:
    plans = explorer.plans(POINTS, "kill", runs, random.Random(seed))
    assert len(plans) == runs
    assert plans == explorer.plans(POINTS, "kill", runs, random.Random(seed))
    for plan in plans:
        where = [POINTS.index(planned.point) for planned in plan.faults]
        assert where == sorted(set(where))
        assert 1 <= len(where) <= explorer.faults
        assert {planned.point.phase for planned in plan.faults} <= set(explorer.phases)
        assert all(explorer.after <= (planned.point.step or 0) for planned in plan.faults)
        assert explorer.before is None or all((one.point.step or 0) <= explorer.before for one in plan.faults)


def drawn(process: Process, rate: float) -> list[Plan]:
    return list(Arrivals(process, rate, ALL).plans(LONG, "kill", 2000, random.Random(4)))


def steps(plan: Plan) -> list[int]:
    return [planned.point.step or 0 for planned in plan.faults]


@pytest.mark.parametrize(("process", "spread"), [("bernoulli", 50 * 0.2 * 0.8), ("poisson", 50 * 0.2)])
def test_the_number_of_arrivals_is_that_of_the_process(process: Process, spread: float) -> None:
    """Binomial or Poisson: the mean is 10 of 50 steps, the variance tells them apart."""
    counts = [len(plan.faults) for plan in drawn(process, 0.2)]
    assert mean(counts) == pytest.approx(10, rel=0.03)
    assert variance(counts) == pytest.approx(spread, rel=0.12)


def test_the_gaps_of_bernoulli_are_geometric() -> None:
    firsts = [steps(plan)[0] for plan in drawn("bernoulli", 0.5)]
    shares = [firsts.count(step) / len(firsts) for step in range(3)]
    assert shares == pytest.approx([0.5, 0.25, 0.125], abs=0.03)


def test_several_arrivals_of_poisson_may_fall_into_one_step_and_no_more_than_it_has_points() -> None:
    for process, may in (("poisson", True), ("bernoulli", False)):
        assert any(len(set(steps(plan))) < len(plan.faults) for plan in drawn(process, 0.5)) is may  # type: ignore[arg-type]
    crowded = Arrivals("poisson", 10.0, ALL).plans(POINTS, "kill", 50, random.Random(1))
    assert max(max(map(steps(plan).count, steps(plan))) for plan in crowded) == len(STEP_PHASES)


def test_a_run_without_an_arrival_is_drawn_anew_and_none_where_nothing_can_be_hit() -> None:
    plans = Arrivals("poisson", 0.01).plans(POINTS, "kill", 50, random.Random(1))
    assert all(plan.faults for plan in plans)
    assert Arrivals(after=99).plans(POINTS, "kill", 5, random.Random(1)) == ()


def test_each_step_is_hit_about_as_often() -> None:
    where = [step for plan in drawn("bernoulli", 0.2) for step in steps(plan)]
    assert min(map(where.count, range(50))) > 330
    assert max(map(where.count, range(50))) < 470


def test_repeat_plans_what_the_other_plans() -> None:
    plain = Sampled(("after_act",))
    assert Repeat(plain, 3).plans(POINTS, "kill", 4, random.Random(1)) == plain.plans(
        POINTS, "kill", 4, random.Random(1)
    )
