"""Thresholds: an expression is what it prints as, a wrong one says where, and an old figure is the right one."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.errors import ScenarioError
from chaos.history import Entry, StrategyFigures
from chaos.thresholds import METRICS, OPERATORS, PERCENT, Threshold, judge, parse

amounts = st.decimals(min_value=0, max_value=10**9, places=3, allow_nan=False)


@st.composite
def expressions(draw: st.DrawFn) -> Threshold:
    metric = draw(st.sampled_from(sorted(METRICS)))
    relative = draw(st.booleans())
    unit = draw(st.sampled_from([*METRICS[metric].units, *([PERCENT] if relative else [])]))
    amount = draw(amounts) * (draw(st.sampled_from([1, -1])) if relative else 1)
    strategy = draw(st.sampled_from(["", "cow", "delta:every=5,durability=exit"]))
    return Threshold(metric, draw(st.sampled_from(sorted(OPERATORS))), amount, unit, relative, strategy)


@given(expressions(), st.sampled_from(["", " "]))
def test_an_expression_is_what_it_prints_as(threshold: Threshold, space: str) -> None:
    again = parse(str(threshold).replace(threshold.op, f"{space}{threshold.op}{space}") + space)
    assert again == threshold and str(again) == str(threshold)


@given(st.text(alphabet="rtopx_95[]<>=+-%. scow", max_size=20))
def test_any_text_is_an_expression_or_an_error_with_its_place(text: str) -> None:
    try:
        assert parse(str(parse(text))) == parse(text)
    except ScenarioError as error:
        assert "at character " in str(error)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "at character 1: a metric belongs here"),
        ("rto_p59>5s", "at character 1: no metric 'rto_p59'; did you mean 'rto_p95'?"),
        ("rto_p95 5s", "at character 9: one of > >= < <= belongs here"),
        ("rto_p95[]>5s", "at character 9: no strategy in the brackets"),
        ("rto_p95>fast", "at character 9: an amount such as '5s', or '+20%' of the last campaign's belongs here"),
        ("rto_p95>5", "at character 10: rto_p95 takes 5ms or 5s or 5m or 5h, not no unit"),
        ("rto_p95>20%", "at character 11: rto_p95 takes 20ms or 20s or 20m or 20h, not the unit '%'"),
        ("rpo_p95>+2s", "at character 11: rpo_p95 takes +2 or +2%, not the unit 's'"),
        ("rto_p95>5s and more", "at character 11: nothing may follow 'rto_p95>5s'"),
    ],
)
def test_a_wrong_expression_says_what_where_and_what_would_be_right(text: str, told: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(text)
    assert told in str(caught.value)


def figures(strategy: str = "cow", shape: str = "a", **changes: object) -> StrategyFigures:
    base = StrategyFigures(strategy=strategy, shape=shape, runs=10, recovered=9, rto_p95=6.0, rpo_p95=2.0)
    return msgspec.structs.replace(base, duplicates=0, bytes_per_step=2048.0, **changes)


def entry(*strategies: StrategyFigures, campaign: str = "before", over: tuple[str, ...] = ()) -> Entry:
    return Entry(campaign=campaign, began="", seed=1, cells=1, as_promised=1, strategies=strategies, over=over)


@pytest.mark.parametrize(
    ("text", "over"),
    [
        ("rto_p95>5s", True), ("rto_p95>6s", False), ("rto_p95>=6s", True), ("rto_p95>6001ms", False),
        ("recovered<90%", False), ("recovered<91%", True), ("bytes_per_step>2kB", True), ("bytes_per_step>2KiB", False),
        ("duplicates>0", False), ("rto_p95>+20%", False), ("rto_p95>+19%", True), ("rto_p95>+1s", False),
        ("rto_p95>+900ms", True), ("recovered<-10%", False), ("recovered<-9%", True), ("rpo_p95>+0", True),
    ],
)  # fmt: skip
def test_figures_are_compared(text: str, over: bool) -> None:
    before = entry(figures(rto_p95=5.0, recovered=10, rpo_p95=1.0))
    [found] = judge([parse(text)], [figures()], [before])
    assert (found.over, found.kept) == (over, not over), found.sentence


def test_what_is_over_says_value_limit_and_the_campaign_before() -> None:
    [found] = judge([parse("rto_p95>+10%")], [figures()], [entry(figures(rto_p95=5.0))])
    assert found.sentence == "rto_p95>+10%: cow has 6.000 s, in before 5.000 s (limit 5.500 s)"


def test_only_a_campaign_that_did_the_same_and_kept_its_thresholds_is_compared_with() -> None:
    wanted = [parse("rto_p95>+10%")]
    old, other = entry(figures(rto_p95=5.0), campaign="old"), entry(figures(shape="b", rto_p95=9.0))
    slow = entry(figures(rto_p95=9.0), over=("rto_p95>+10%",))  # a regression must fail when it is seen again, too
    [found] = judge(wanted, [figures()], [old, other, slow])
    assert found.over and "in old 5.000 s" in found.sentence
    for nothing in ([], [other], [slow], [entry(figures("delta"))]):
        [found] = judge(wanted, [figures()], nothing)
        assert (
            not found.over
            and not found.kept
            and "no earlier campaign in the history did the same work" in found.sentence
        )


def test_what_was_not_measured_proves_nothing() -> None:
    [found] = judge(
        [parse("duplicates>0")], [figures(rto_p95=None).__class__(strategy="cow", shape="", runs=0, recovered=0)], []
    )
    assert not found.over and not found.kept and found.sentence == "no run had a duplicates"


def test_a_strategy_is_meant_by_its_label_or_by_the_name_of_all_variants() -> None:
    known = [figures("delta:every=5"), figures("delta:every=9"), figures("cow")]

    def asked(text: str) -> list[str]:
        return [found.strategy for found in judge([parse(text)], known, [])]

    assert asked("rto_p95>1s") == ["delta:every=5", "delta:every=9", "cow"]
    assert asked("rto_p95[delta]>1s") == ["delta:every=5", "delta:every=9"]
    assert asked("rto_p95[delta:every=9]>1s") == ["delta:every=9"]
    [none] = judge([parse("rto_p95[restart]>1s")], known, [])
    assert not none.kept and none.sentence == "no such strategy ran"


def test_amounts_are_exact() -> None:
    assert parse("rto_p95>0.1s").amount == Decimal("0.1") and parse("rto_p95>+0.3s").limit(0.1) == pytest.approx(0.4)
