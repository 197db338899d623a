"""Which strategy is recommended, by what was demanded and what it costs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import results
from chaos.reports.advice import Price, advice, cheapest
from chaos.verdict import CellVerdict
from tests.reports.made import CHECKS, campaign, run


def told(*runs: results.RunResult) -> str:
    return advice(campaign(runs)).sentence


def test_the_cheapest_of_those_that_keep_everything_is_recommended() -> None:
    found = advice(
        campaign(
            [
                run("careless", broke=("files",)),
                run("wasteful", again=9_000),
                run("lean", again=300, stored=40_000),
                run("fat", again=100, stored=900_000),
            ]
        )
    )
    assert found.strategy == "lean" and found.keeps_all
    assert found.sentence == (
        "Take lean: of the 3 that kept what was demanded under the fault (wasteful, lean and fat) it is the cheapest, "
        "with 300 tokens of a run paid for in vain and 1.0 kB stored per step."
    )


def test_who_alone_keeps_everything_is_recommended_whatever_it_costs() -> None:
    assert told(run("cheap", broke=("state",)), run("dear", again=90_000)).startswith("Take dear: it alone kept")


def test_a_control_is_not_recommended_beside_others_that_keep_as_much() -> None:
    control = run("restart", claims=False)
    assert advice(campaign([control, run("delta", again=50_000)])).strategy == "delta"
    alone = advice(campaign([control, run("delta", broke=("state",))]))
    assert alone.strategy == "restart" and "It is a control" in alone.sentence


def test_where_nobody_claims_anything_nobody_is_a_control() -> None:
    found = advice(campaign([run("mine", claims=False, again=9_000), run("theirs", claims=False)]))
    assert found.strategy == "theirs" and not any(each.control for each in found.standings)


def test_where_none_keeps_everything_it_is_said_and_who_loses_least() -> None:
    lost = {"broke": ("effects", "files"), "expected": ("files",)}
    found = advice(
        campaign([run("a", **lost), run("a", "evict"), run("b", "kill", broke=("state",)), run("b", "evict", **lost)])
    )
    assert found.strategy == "a" and not found.keeps_all
    assert found.sentence == (
        "No strategy kept what was demanded under all 2 faults. a loses least: kept under 1 of them, "
        "broken under kill (effects and files)."
    )


def test_what_every_strategy_may_break_is_not_demanded_and_named() -> None:
    at_least_once = {"broke": ("effects",), "expected": ("effects",)}
    found = advice(campaign([run("a", **at_least_once), run("b", **at_least_once)]))
    assert found.keeps_all
    assert found.demanded == (
        "Demanded is what the scenarios check: 3 promises, each one check against one of 1 fault of 1 scenario, in "
        "every run; not what they expect every strategy to break: kill (effects)."
    )


def test_what_one_strategy_may_break_is_demanded_all_the_same() -> None:
    found = advice(campaign([run("a", broke=("effects",), expected=("effects",)), run("b", again=9_000)]))
    assert found.strategy == "b" and "4 promises" in found.demanded


@pytest.mark.parametrize(
    "poor",
    [
        run("a", open=("state",)),
        run("a", landed=(), verdict=CellVerdict.NOT_EXERCISED),
        run("a", verdict=CellVerdict.HARNESS_ERROR),
    ],
)
def test_what_could_not_be_judged_is_not_kept(poor: results.RunResult) -> None:
    found = advice(campaign([run("a"), poor, run("b", again=9_000)]))
    assert found.strategy == "b"
    assert found.of("a").open == (("s", "kill"),)  # type: ignore[union-attr]


def test_a_fault_that_a_strategy_never_met_is_open() -> None:
    found = advice(campaign([run("a"), run("b", again=9_000), run("b", "evict", broke=("files",))]))
    assert found.of("a").open == (("s", "evict"),)  # type: ignore[union-attr]
    assert "was shown to keep" in found.sentence and "open under evict" in found.sentence


def test_of_a_loud_refusal_that_is_allowed_nothing_else_is_asked() -> None:
    refused = {"broke": ("finishes",), "expected": ("finishes",), "open": ("effects", "files", "state")}
    found = advice(campaign([run("loud", **refused), run("silent", broke=("state",), expected=("finishes", "state"))]))
    assert found.strategy == "loud" and found.keeps_all


def test_without_anything_judged_nobody_is_recommended() -> None:
    found = advice(campaign([run("a", open=CHECKS)]))
    assert found.strategy == "" and "could be judged" in found.sentence
    assert advice(campaign([])).strategy == ""


@pytest.mark.parametrize(
    ("prices", "chosen"),
    [
        ({"a": Price(2_000, 1e5, 9e9, 9), "b": Price(4_000, 1e5, 1_000, 1)}, "a"),  # tokens come first
        ({"a": Price(2_000, 1e5, 9_000, 1), "b": Price(2_900, 1e5, 2_000, 9)}, "b"),  # below 1 %: bytes
        ({"a": Price(0, 1e5, 2_050, 1), "b": Price(0, 1e5, 2_000, 9)}, "a"),  # below 5 %: seconds
        ({"a": Price(0, 1e5, 900, 1), "b": Price(0, 1e5, 0, 9)}, "a"),  # below 1 kB all are equal
        ({"a": Price(0, 1e5, math.inf, math.inf), "b": Price(0, 1e5, math.inf, math.inf)}, "a"),
    ],
)
def test_cheapest_is_what_the_page_says(prices: dict[str, Price], chosen: str) -> None:
    assert cheapest(prices) == chosen


@given(
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.builds(Price, st.floats(0, 1e6), st.floats(1, 1e6), st.floats(0, 1e9), st.floats(0, 1e3)),
        min_size=1,
    )
)
def test_nobody_is_cheaper_in_everything_than_the_cheapest(prices: dict[str, Price]) -> None:
    best = prices[cheapest(prices)]
    assert not any(p.tokens < best.tokens and p.stored < best.stored and p.rto < best.rto for p in prices.values())


def test_costs_are_compared_over_the_faults_that_all_met() -> None:
    dear = [run("b", "evict", again=80_000), run("b", again=100)]
    found = advice(campaign([run("a", "evict", open=("state",)), run("a", again=3_000), *dear]))
    assert found.strategy == "b"
    both = [run("a", "evict", again=100), run("a", again=3_000), *dear]
    assert advice(campaign(both)).strategy == "a"
