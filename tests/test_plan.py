"""Plans and their text form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.errors import ScenarioError
from chaos.plan import PHASES, SYSCALLS, Plan, PlannedFault, Point, parse_plan

labels = st.from_regex(r"[A-Za-z0-9_.:=,-]+", fullmatch=True)
points = st.builds(Point, st.none() | st.integers(0, 10**9), st.sampled_from((*PHASES, *SYSCALLS)), st.booleans())
plans = st.builds(Plan, st.lists(st.builds(PlannedFault, labels, points), max_size=4).map(tuple))


@given(plans)
def test_a_plan_is_read_back_from_its_text(plan: Plan) -> None:
    assert parse_plan(str(plan)) == plan


@given(st.text())
def test_other_text_is_a_scenario_error(text: str) -> None:
    try:
        assert isinstance(parse_plan(text), Plan)
    except ScenarioError as error:
        assert str(error)


def test_the_form_is_short() -> None:
    first = PlannedFault("kill", Point(17, "after_act"))
    again = PlannedFault("kill", Point(None, "after_load", recovery=True))
    assert str(Plan((first, again))) == "kill@17/after_act+kill@recovery/after_load"
    assert str(Plan()) == "no fault"
    assert str(Plan((PlannedFault("kill", Point(7, "fsync")),))) == "kill@7/fsync"


@given(plans)
def test_a_plan_knows_its_system_calls(plan: Plan) -> None:
    assert plan.syscalls == {planned.point.phase for planned in plan.faults} - set(PHASES)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a planned fault: ''"),
        ("kill", "write FAULT@STEP/PHASE, as in 'kill@17/after_act'"),
        ("kill@17/after_akt", "no phase 'after_akt' in 'kill@17/after_akt'; did you mean 'after_act'"),
        ("kill@17/after_act+", "not a planned fault: ''"),
    ],
)
def test_what_is_no_plan(text: str, says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_plan(text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("point", "attempt", "hits"),
    [
        (Point(3, "after_act"), 1, True),
        (Point(3, "after_act"), 2, True),
        (Point(4, "after_act"), 1, False),
        (Point(None, "after_act"), 1, True),
        (Point(3, "after_act", recovery=True), 1, False),
        (Point(None, "after_act", recovery=True), 2, True),
        (Point(3, "before_act"), 1, False),
    ],
)
def test_where_a_point_is(point: Point, attempt: int, hits: bool) -> None:
    assert point.matches(3, "after_act", attempt) is hits
