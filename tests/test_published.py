"""The arithmetic against figures that were worked out, and measured, elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.published import PHASES, PUBLISHED, model

S = 50_000
FULL: Mapping[str, object] = {"durability": "sync"}


def stored(name: str, options: Mapping[str, object], n: int) -> float:
    found = model(name, options, S, n, n)
    assert found is not None
    return found.stored / 1e6


@pytest.mark.parametrize(("n", "full", "every_20"), [(50, 66.25, 5.5), (100, 257.5, 20.0), (150, 573.75, 35.5)])
def test_the_curves_of_the_article_worked_out(n: int, full: float, every_20: float) -> None:
    assert stored("full_snapshot", FULL, n) == full
    assert stored("delta", {"every": 20}, n) == every_20


def test_the_anchors_at_200_steps() -> None:
    assert stored("full_snapshot", FULL, 200) == 1015
    assert stored("delta", {"every": 20}, 200) == 65
    assert stored("delta", {"every": 50}, 200) == 35
    assert stored("delta", {"every": 1000}, 200) == 10
    assert stored("chat_history", {"write": "append"}, 200) == 10
    assert stored("events", {}, 200) == 10


def test_rewriting_stores_little_and_writes_much() -> None:
    found = model("chat_history", {"write": "rewrite"}, S, 200, 200)
    assert found is not None
    assert (found.stored, found.written) == (10_000_000, 1_005_000_000 + 2_500_000)


@given(st.integers(1, 300), st.integers(1, 300))
def test_a_delta_with_a_snapshot_in_each_step_is_a_full_snapshot(n: int, s: int) -> None:
    one, other = model("delta", {"every": 1}, s, n, n), model("full_snapshot", FULL, s, n, n)
    assert one is not None and other is not None
    assert one.stored == other.stored


@given(st.integers(1, 300), st.integers(1, 60))
def test_the_snapshots_add_up(n: int, every: int) -> None:
    found = model("delta", {"every": every}, 1, n, n)
    assert found is not None
    assert found.stored == n + sum(range(every, n + 1, every))


def test_a_strategy_that_nobody_knows_has_no_model() -> None:
    assert model("planted", {}, S, 200, 200) is None
    assert model("full_snapshot", {"durability": "exit"}, S, 200, 200) is None


def test_what_was_published_is_for_strategies_and_options_that_exist() -> None:
    from chaos import registry

    for each in PUBLISHED:
        registry.load("strategies", each.strategy)(**dict(each.options))
        assert each.kind in ("article", "vendor blog", "paper")
        assert each.given or each.remark


def test_a_figure_for_one_option_is_not_about_another() -> None:
    about = [each for each in PUBLISHED if each.about("delta", {"every": 50, "database": "postgres"})]
    assert [each.kind for each in about] == ["vendor blog"]


def test_three_phases_hold_a_third_of_the_conversation_each() -> None:
    assert stored("segmented", {}, 300) == S * (3 * 100 * 101 // 2 + 300) / 1e6
    first = model("segmented", {}, 1, 50, 300)
    assert first is not None and first.stored == 50 * 51 // 2 + 50  # it is in its first phase


def test_the_phases_are_those_of_the_strategy() -> None:
    phases = pytest.importorskip("chaos.targets.reference.phases")
    assert phases.PHASES == PHASES
