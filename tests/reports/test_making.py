"""What is told of how the runs were made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chaos import results
from chaos.reports import html, terminal
from chaos.reports.making import MANY, made_how
from chaos.results import DERIVED, EQUAL, KILLED
from chaos.route import DERIVE_FROM
from chaos.verdict import CellVerdict

GOOD = CellVerdict.RECOVERED
ONE = "kill@7/after_act"


def cell(sample: Any, strategy: str, made: list[tuple[str, str]], why: str = "", **changes: object) -> None:
    """Append the cell of *strategy* x kill, each of whose runs was *made* somehow, like something."""
    runs = tuple(
        sample.run("crash", strategy, "kill", number, GOOD, how=how, like=like, **changes)
        for number, (how, like) in enumerate(made)
    )
    sample.cell("crash", strategy, "kill", runs, real_because=why)


def test_crash_points_are_counted_by_how_they_were_covered(build: Callable[[], Any]) -> None:
    """One that was run for an equal one, and killed for real as well, is not distinct."""
    sample = build()
    cell(sample, "delta", [(DERIVED, ""), (EQUAL, ONE), (EQUAL, ONE), (KILLED, ""), (KILLED, ONE)])
    cell(sample, "cow", [(DERIVED, ""), (DERIVED, "")])
    cell(sample, "restart", [(KILLED, "")] * 3, "too few runs")
    (line,) = made_how(results.read(sample.folder))
    assert line == (
        "7 crash points, 4 distinct, all covered: 2 killed for real, 3 resumed from captured crash states, "
        "2 equal to one of these"
    )


def test_what_could_not_be_run_is_not_covered(build: Callable[[], Any]) -> None:
    sample = build()
    cell(sample, "delta", [(DERIVED, ""), (EQUAL, ONE)])
    sample.run("crash", "delta", "kill", 2, CellVerdict.HARNESS_ERROR, error="no sandbox")
    (line,) = made_how(results.read(sample.folder))
    assert line.startswith("3 crash points, 2 distinct, 1 not covered: 0 killed for real, 1 resumed")


@pytest.mark.parametrize("runs", [0, MANY - 1, MANY])
def test_cells_of_many_runs_say_why_they_were_not_derived(build: Callable[[], Any], runs: int) -> None:
    sample = build()
    for strategy in ("cow", "semantic"):
        cell(sample, strategy, [(KILLED, "")] * runs, "its snapshots are elsewhere")
    cell(sample, "delta", [(KILLED, "")] * runs, "every run is made from its start")
    cell(sample, "restart", [(KILLED, "")] * runs)
    told = [
        "made from their start: cow x kill and semantic x kill: its snapshots are elsewhere",
        "made from their start: delta x kill: every run is made from its start",
    ]
    assert made_how(results.read(sample.folder)) == (told if runs >= MANY else [])


def test_many_is_from_where_on_a_cell_is_derived() -> None:
    assert MANY == DERIVE_FROM


def test_the_reports_say_it(build: Callable[[], Any], tmp_path: Any) -> None:
    sample = build()
    cell(sample, "delta", [(DERIVED, ""), (EQUAL, "<b>kill@7/after_act</b>")])
    cell(sample, "cow", [(KILLED, "")] * MANY, "<b>its snapshots</b> are elsewhere")
    campaign = results.read(sample.folder)
    text = " ".join(" ".join(terminal.render(campaign, None, 80)).split())
    for line in made_how(campaign):
        assert line in text
    page = html.render(campaign, sample.folder)
    assert "2 crash points, 1 distinct, all covered" in page
    assert "&lt;b&gt;its snapshots&lt;/b&gt; are elsewhere" in page and "<b>its snapshots" not in page


def test_campaigns_without_derived_runs_say_nothing(campaign: results.Campaign) -> None:
    assert made_how(campaign) == []
