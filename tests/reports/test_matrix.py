"""The matrix: which state a cell is in, how columns are named, what the headline says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import registry, results
from chaos.reports import cells, matrix
from chaos.reports.bands import FULL, bands
from chaos.reports.cells import Cell, Column, State
from chaos.reports.matrix import Headline, Matrix, Row
from chaos.results import Campaign
from chaos.verdict import CellVerdict


def cell(campaign: Campaign, strategy: str, label: str) -> Cell:
    """Return the cell of *strategy* in the column *label*."""
    return next(c for c in matrix.of(campaign).cells if c.strategy == strategy and c.column.label == label)


@pytest.mark.parametrize(
    ("strategy", "column", "state", "word", "terminal", "recovered"),
    [
        ("full_snapshot", "oom_kill", State.RECOVERED, "recovered", "ok", 3),
        ("full_snapshot", "corrupt_delta", State.EXPECTED, "refused", "refused", 0),
        ("chat_history", "oom_kill", State.EXPECTED, "lost files", "files", 0),
        ("chat_history", "evict", State.SOMETIMES, "sometimes lost files", "FILES", 1),
        ("chat_history", "crash kill", State.KEPT, "unexpectedly kept", "XPASS", 3),
        ("delta:every=5", "evict", State.REFUSED, "refused", "REFUSED", 0),
        ("delta:every=5", "rate_limit", State.BROKEN, "stuck", "STUCK", 0),
        ("delta:every=5", "corrupt_delta", State.BROKEN, "silently wrong", "SILENT", 0),
        ("delta:every=5", "crash kill", State.BROKEN, "work redone", "REDONE", 0),
        ("delta:every=5", "again kill", State.UNKNOWN, "unfinished", "unfinished", 1),
        ("cow", "oom_kill", State.SKIPPED, "skipped", "skip", 0),
        ("cow", "rate_limit", State.NOT_EXERCISED, "not exercised", "NOT EXERCISED", 0),
        ("cow", "crash kill", State.UNKNOWN, "unknown", "unknown", 0),
        ("cow", "corrupt_delta", State.ERROR, "harness error", "ERROR", 0),
    ],
)
def test_every_state(
    campaign: Campaign, strategy: str, column: str, state: State, word: str, terminal: str, recovered: int
) -> None:
    found = cell(campaign, strategy, column)
    assert (found.state, found.word, found.terminal, found.recovered) == (state, word, terminal, recovered)


def test_every_state_occurs_in_the_sample(campaign: Campaign) -> None:
    # A known failure needs a baseline: test_markdown.py has one.
    assert {found.state for found in matrix.of(campaign).cells} == set(State) - {State.KNOWN}


def test_a_promise_kept_beside_others_that_broke_as_allowed(build: Callable[[], Any]) -> None:
    sample = build()
    changes = {"broke": ("files",), "expected": ("files", "processes")}
    sample.simple("s", "a", "kill", (CellVerdict.DIVERGED,), changes, passed=False, why="processes must break")
    assert cell(results.read(sample.folder), "a", "kill").state is State.KEPT


def test_a_cell_cut_short_is_broken_if_a_run_broke_what_it_must_not(build: Callable[[], Any]) -> None:
    sample = build()
    sample.run("s", "a", "kill", 0, CellVerdict.DIVERGED, broke=("files",))
    found = cell(results.read(sample.folder), "a", "kill")
    assert (found.state, found.finished, found.good) == (State.BROKEN, False, False)


def test_the_scenario_is_named_only_where_the_fault_is_ambiguous(campaign: Campaign) -> None:
    labels = [column.label for column in matrix.of(campaign).columns]
    assert labels == ["oom_kill", "evict", "rate_limit", "crash kill", "corrupt_delta", "again kill"]


def test_rows_are_in_order_of_first_appearance(campaign: Campaign) -> None:
    assert [row.strategy for row in matrix.of(campaign).rows] == [
        "full_snapshot", "chat_history", "delta:every=5", "cow",
    ]  # fmt: skip


def test_anchors_are_unique_even_where_names_collide(build: Callable[[], Any]) -> None:
    sample = build()
    for strategy in ("delta:every=5", "delta every 5"):
        sample.simple("s", strategy, "kill", (CellVerdict.RECOVERED,), {})
    anchors = [found.anchor for found in matrix.of(results.read(sample.folder)).cells]
    assert anchors == ["cell-delta-every-5--kill", "cell-delta-every-5--kill-2"]


def test_the_headline_counts_what_broke_and_names_it(campaign: Campaign) -> None:
    headline = matrix.of(campaign).headline
    assert headline.word == "5 broken promises"
    assert headline.sentence.startswith(
        "full_snapshot recovered most often, from 5 of 6 faults; no strategy from every fault; chat_history × evict, "
    )
    assert "cow × rate_limit" in headline.rest
    assert "2 losses were expected" in headline.rest


def test_the_headline_of_a_clean_campaign(build: Callable[[], Any]) -> None:
    sample = build()
    for strategy in ("a", "b", "c"):
        sample.simple("s", strategy, "kill", (CellVerdict.RECOVERED,) * 2, {})
    headline = matrix.of(results.read(sample.folder)).headline
    assert (headline.word, headline.sentence) == ("As promised", "All 3 strategies recovered from every fault.")


@pytest.mark.parametrize("skipped", ["", "no cgroup"])
def test_nothing_run_is_nothing_proved(build: Callable[[], Any], skipped: str) -> None:
    sample = build()
    if skipped:
        sample.cell("s", "a", "kill", (), skipped=skipped)
    found = matrix.of(results.read(sample.folder))
    assert (found.headline.word, found.headline.sentence) == ("Nothing proved", "No cell was run.")


def test_figures_count_cells_faults_and_numbers(campaign: Campaign) -> None:
    found = matrix.of(campaign)
    shown = {figure.label: figure.value for figure in matrix.figures(found, campaign, duplicates=4)}
    assert shown["cells as promised"] == "9 / 19"
    assert shown["broken promises"] == "5"
    assert shown["planned faults landed"] == "47 / 50"
    assert shown["duplicate effects"] == "4"
    assert "duplicate effects" not in {figure.label for figure in matrix.figures(found, campaign)}


def test_skips_are_grouped_by_reason(campaign: Campaign) -> None:
    assert matrix.of(campaign).skips == (
        ("no memory cgroup: run as root or delegate one", ("cow × oom_kill", "cow × evict")),
    )


def test_the_worst_cell_is_replayed(campaign: Campaign) -> None:
    assert "--chaos-strategy delta:every=5" in matrix.of(campaign).replay
    assert matrix.of(campaign).bad[0].word == "silently wrong"


def test_every_check_has_its_words() -> None:
    """`finishes` has none: a run that did not finish is refused or stuck, and says so."""
    assert {check for check, _, _ in cells.LOSSES} == set(registry.names("checks")) - {"finishes"}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("12"), st.sets(st.sampled_from("STUV"), min_size=1))))
def test_bands_have_every_cell_once_and_are_mostly_full(crossed: list[tuple[str, str, set[str]]]) -> None:
    faults = {(scenario, fault): strategies for scenario, fault, strategies in crossed}
    columns = tuple(Column(scenario, fault, f"{scenario} {fault}") for scenario, fault in sorted(faults))
    made = {(name, column.label): object() for column in columns for name in faults[column.scenario, column.fault]}
    rows = tuple(Row(name, tuple(made.get((name, c.label)) for c in columns)) for name in "STUV")  # type: ignore[arg-type]
    found = bands(Matrix(columns, rows, Headline("", "", "", State.RECOVERED), ()))
    shown = [cell for band in found for row in band.rows for cell in row.cells if cell]
    assert sorted(map(id, shown)) == sorted(map(id, made.values()))
    assert sorted(column.label for band in found for column in band.columns) == sorted(c.label for c in columns)
    for band in found:
        assert all(any(row.cells) for row in band.rows)
        if len({column.scenario for column in band.columns}) > 1:
            fields = len(band.rows) * len(band.columns)
            assert sum(cell is not None for row in band.rows for cell in row.cells) >= FULL * fields
