"""Several faults in one run."""

from __future__ import annotations

import random
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from chaos.explorers import Explorer
from chaos.explorers.combine import Combine, combine
from chaos.explorers.every import Every
from chaos.explorers.fixed import Fixed
from chaos.explorers.recovery import Recovery
from chaos.explorers.sampled import Sampled
from chaos.faults import Fault
from chaos.plan import STEP_PHASES, Point
from chaos.scenario import FaultSpec

POINTS = [Point(step, phase) for step in range(10) for phase in STEP_PHASES]


def spec(label: str, at: Explorer, *then: FaultSpec) -> FaultSpec:
    return FaultSpec(label, label, cast(Fault, object()), at, then)


def texts(whole: FaultSpec, runs: int = 2, seed: int = 1) -> list[str]:
    return [str(plan) for plan in combine(whole, POINTS, runs, random.Random(seed))]


def test_a_fault_alone() -> None:
    assert texts(spec("kill", Fixed((4, 8)))) == ["kill@4/after_act", "kill@8/after_act"]


def test_a_fault_and_another_during_recovery() -> None:
    whole = spec("kill", Fixed((4,)), spec("late", Recovery(("after_load",))))
    assert texts(whole) == ["kill@4/after_act+late@recovery/after_load"]


def test_several_places_are_several_plans() -> None:
    whole = spec("a", Fixed((4, 5)), spec("b", Every(("after_act",), before=6)))
    assert texts(whole) == [
        "a@4/after_act+b@5/after_act",
        "a@4/after_act+b@6/after_act",
        "a@5/after_act+b@6/after_act",
    ]


def test_faults_follow_in_order_and_nest() -> None:
    once = Recovery(("after_load",))
    assert texts(spec("a", Fixed((4,)), spec("b", once, spec("c", once)), spec("d", Fixed((9,))))) == [
        "a@4/after_act+b@recovery/after_load+c@recovery/after_load+d@9/after_act"
    ]


def test_only_who_names_the_same_point_gets_it() -> None:
    assert texts(spec("a", Fixed((4,)), spec("b", Fixed((4,))))) == ["a@4/after_act+b@4/after_act"]
    later = texts(spec("a", Fixed((4,)), spec("b", Every(("after_act",), before=6))))
    assert later == ["a@4/after_act+b@5/after_act", "a@4/after_act+b@6/after_act"]


def test_half_a_plan_is_no_plan() -> None:
    assert texts(spec("a", Fixed((4,)), spec("b", Fixed((3,))))) == []


@given(st.integers(), st.integers(1, 20))
def test_a_following_fault_comes_later(seed: int, runs: int) -> None:
    whole = spec("a", Sampled(before=8), spec("b", Sampled(), spec("c", Recovery())))
    plans = combine(whole, POINTS, runs, random.Random(seed))
    assert len(plans) == runs
    assert plans == combine(whole, POINTS, runs, random.Random(seed))
    for plan in plans:
        first, second, third = plan.faults
        assert POINTS.index(first.point) < POINTS.index(second.point)
        assert third.point.recovery


def test_it_is_an_explorer_itself() -> None:
    assert len(Combine().plans(POINTS, "kill", 4, random.Random(1))) == 4
