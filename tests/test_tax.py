"""What is made of measurements: models and publications beside them, and what keeps them from being a result."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from chaos import tax
from chaos.campaign import Cell
from chaos.growth import Row
from chaos.scenario.loader import load
from chaos.tax import Measured, Tax

SCENARIO = """
version: 1
scenario: tax
target: {reference: {workload: long_notes, steps: 401, bytes_per_step: 50000, window: 4}}
strategies: [chat_history, full_snapshot, {delta: {every: 50}}, cow]
faults: [{kind: kill, at: {step: 200, phase: before_think}}]
expected_failures:
  - {strategy: chat_history, breaks: [state], because: the counters are not in the messages}
"""


@pytest.fixture
def cells(tmp_path: Path) -> list[Cell]:
    path = tmp_path / "tax.chaos.yaml"
    path.write_text(SCENARIO)
    scenario = load(path)
    return [Cell(scenario, strategy, scenario.faults[0]) for strategy in scenario.strategies]


def measured(cell: Cell, state: str = "same", **changes: object) -> Measured:
    rows = tuple(
        Row(n=n, stored_bytes=50_000 * n, written_bytes=60_000 * n, step_ms=1.0, resume_ms=2.0) for n in (100, 200)
    )
    found = Measured(strategy=cell.strategy.label, bytes_per_step=50_000, steps=401, rows=rows, state=state)
    return msgspec.structs.replace(found, **changes)


def assembled(found: list[tuple[Cell, Measured]]) -> Tax:
    return tax.assembled(found, seed=1, began="now", seconds=1.0, versions={}, machine={})


def test_each_row_has_its_model_beside_it(cells: list[Cell]) -> None:
    whole = assembled([(cell, measured(cell)) for cell in cells])
    assert [(row.strategy, row.n) for row in whole.rows] == [(each.strategy, each.n) for each in whole.model]
    said = {(each.strategy, each.n): each.stored_bytes for each in whole.model}
    assert said["full_snapshot", 200] == 1_015_000_000
    assert said["delta:every=50", 200] == 35_000_000
    assert [each.strategy for each in whole.exponents] == ["chat_history", "full_snapshot", "delta:every=50", "cow"]
    assert whole.problems == ()


def test_what_was_published_for_other_work_is_marked(cells: list[Cell]) -> None:
    whole = assembled([(cell, measured(cell)) for cell in cells])
    full = [each for each in whole.published if each.strategy == "full_snapshot"]
    assert {(each.kind, each.n, each.comparable) for each in full} >= {
        ("article", 200, True),
        ("vendor blog", 200, False),
    }
    assert all(each.comparable == (each.kind == "article") for each in whole.published)


def test_figures_for_steps_of_other_sizes_are_left_out(cells: list[Cell]) -> None:
    whole = assembled([(cell, measured(cell, bytes_per_step=900)) for cell in cells])
    assert {each.kind for each in whole.published} == {"vendor blog"}


def test_another_end_than_the_others_is_a_problem(cells: list[Cell]) -> None:
    chat, full, delta, cow = cells
    found = [(chat, measured(chat, "its own")), (full, measured(full)), (delta, measured(delta)), (cow, measured(cow))]
    assert assembled(found).problems == ()  # the scenario says so of this one
    found[3] = (cow, measured(cow, "another"))
    assert assembled(found).problems == ("cow: the final state is not that of full_snapshot, delta:every=50",)


def test_a_run_that_went_wrong_is_a_problem(cells: list[Cell]) -> None:
    found = [(cells[0], measured(cells[0], wrong=("it did not finish (deadline): it said nothing",)))]
    assert assembled(found).problems == ("chat_history: it did not finish (deadline): it said nothing",)


def test_bytes_that_nobody_counted_are_a_problem(cells: list[Cell]) -> None:
    row = Row(n=200, stored_bytes=10_000_000, written_bytes=0, step_ms=1.0, resume_ms=1.0)
    [problem] = assembled([(cells[1], measured(cells[1], rows=(row,)))]).problems
    assert problem.startswith("full_snapshot: fewer bytes were written than are stored")


def test_what_was_skipped_is_told_and_in_no_row(cells: list[Cell]) -> None:
    whole = assembled([(cells[0], Measured(strategy="chat_history", skipped="no redis-server"))])
    assert whole.skipped == {"chat_history": "no redis-server"}
    assert whole.rows == whole.problems == ()


def test_the_options_are_all_of_them(cells: list[Cell]) -> None:
    assert tax.options_of(cells[2]).items() >= {"every": 50, "durability": "sync"}.items()
