"""Cells in parts: which are divided and how, and that it changes neither a run nor what the whole amounts to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import results
from chaos.campaign import Cell, Runner
from chaos.explorers import Explorer
from chaos.explorers.every import Every
from chaos.explorers.fixed import Fixed
from chaos.explorers.sampled import Sampled
from chaos.explorers.syscall import Syscall
from chaos.faults.kill import Kill
from chaos.parts import LARGE, LEAST, WHOLE, Part, estimate, fingerprint, parts
from chaos.plan import STEP_PHASES, parse_plan
from chaos.results import CampaignInfo, CellResult
from chaos.scenario import ExpectedFailure, Scenario
from chaos.verdict import CellVerdict
from tests import toy


@given(total=st.integers(0, 5_000), of=st.integers(1, 50))
def test_the_shares_of_all_parts_are_the_whole_once_and_of_equal_size(total: int, of: int) -> None:
    shares = [Part(number + 1, of).share(total) for number in range(of)]
    assert [place for share in shares for place in share] == list(range(total))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize(
    ("runs", "wanted", "workers", "many"),
    [
        (3, None, 8, 1),  # small
        (3, 8, 1, 1),
        (LARGE, 8, 1, 8),  # who names a number gets it, in large cells
        (LARGE, 1, 8, 1),
        (5_000, None, 1, 1),  # nobody to share with
        (5_000, None, 8, 8),
        (3 * LEAST, None, 8, 3),  # no part too small
        (2 * LEAST - 1, None, 8, 1),
    ],
)
def test_which_cells_are_divided(runs: int, wanted: int | None, workers: int, many: int) -> None:
    found = parts(runs, wanted, workers)
    assert found == ((WHOLE,) if many == 1 else tuple(Part(number + 1, many) for number in range(many)))


@pytest.mark.parametrize(
    ("at", "steps", "runs", "about"),
    [
        (Every(), 40, 3, 40 * len(STEP_PHASES)),
        (Every(("after_act",)), 12, 3, 12),
        (Every(), 400, 3, 400 * len(STEP_PHASES)),
        (Every(draw=True), 200, 3, 200),
        (Every(("after_act",), 100, 199), 400, 3, 100),
        (Sampled(), 40, 3, 3),
        (Sampled(), 40, 700, 700),
        (Fixed((4, 17)), 40, 3, 2),
        (Syscall("fsync", every=True), 40, 3, 40),
        (Syscall("fsync"), 40, 25, 25),
    ],
)
def test_how_many_runs_are_expected(at: Explorer, steps: int, runs: int, about: int) -> None:
    assert estimate(toy.spec(Kill(), at), steps, runs) == about


def test_a_fingerprint_tells_plans_apart_and_counts_them() -> None:
    one, other = parse_plan("kill@1/after_act"), parse_plan("kill@2/after_act")
    assert fingerprint([one, other]).startswith("2 plans (")
    assert len({fingerprint(plans) for plans in ([one, other], [other, one], [one], [one, one])}) == 4


# -- in real runs

LATE = "kept until the third step"


def campaign(folder: Path, scenario: Scenario, of: int = 1, only: tuple[int, ...] = ()) -> results.Campaign:
    """Run the cells of *scenario*, in so many parts (*of*) each, or *only* some of them; return what is read back."""
    info = CampaignInfo(campaign="campaign", seed=toy.SEED, began="", command="", versions={}, machine={})
    results.write_info(folder, info)
    for cell in toy.cells(scenario):
        for number in only or range(1, of + 1):
            # A process of its own for each: what another part has made is not at hand.
            runner = Runner(folder, "campaign", toy.SEED)
            runner.run_cell(replace(cell, part=Part(number, of)))
            runner.close()
    return results.read(folder)


def told(campaign: results.Campaign) -> list[tuple[Any, ...]]:
    return [(run.key, run.run, run.plan, run.seed, run.verdict, run.broke, run.replay) for run in campaign.runs]


def whole(cell: CellResult) -> CellResult:
    """Return *cell* without what is only said of a divided one, or depends on how many runs a part has."""
    return msgspec.structs.replace(cell, parts=1, plans="", expects=(), real_because="")


@pytest.fixture(scope="module")
def forgetful() -> Scenario:
    """Four runs; only in the last does the agent lose more than it may: the last part alone breaks what must break."""
    expected = ExpectedFailure("forgets", "", ("recovery",), (), LATE)
    at = Every(("before_act", "after_act"), 0, 1)
    return toy.scenario(toy.spec(Kill(), at), strategies=(toy.FORGETS,), expected=(expected,))


@pytest.fixture(scope="module")
def undivided(tmp_path_factory: pytest.TempPathFactory, forgetful: Scenario) -> results.Campaign:
    return campaign(tmp_path_factory.mktemp("undivided") / "results", forgetful)


@pytest.fixture(scope="module")
def divided(tmp_path_factory: pytest.TempPathFactory, forgetful: Scenario) -> Path:
    folder = tmp_path_factory.mktemp("divided") / "results"
    campaign(folder, forgetful, 2)
    return folder


def test_a_divided_cell_has_the_same_runs_and_amounts_to_the_same(divided: Path, undivided: results.Campaign) -> None:
    assert len(undivided.runs) == 4 and undivided.cells[0].expected
    assert told(results.read(divided)) == told(undivided)
    assert list(map(whole, results.read(divided).cells)) == list(map(whole, undivided.cells))


def test_what_must_break_is_asked_of_the_whole_and_not_of_a_part(divided: Path) -> None:
    _, _, cells, _ = results.read_parts(divided)
    assert [(cell.part, cell.runs, cell.passed) for cell in cells] == [(1, 2, True), (2, 2, True)]
    assert not cells[0].expected and cells[1].expected, (
        "the first part shows what must break, so this test shows nothing"
    )


def test_a_cell_that_lacks_a_part_is_not_judged_yet(tmp_path: Path, divided: Path) -> None:
    info, _, cells, runs = results.read_parts(divided)
    results.write_info(tmp_path, info)
    for result in (*runs[:2], cells[0]):
        results.append(tmp_path, result)
    found = results.read(tmp_path)
    (cell,) = found.cells
    assert cell.missing == (2,) and not cell.passed and cell.why == "part 2 of 2 is missing"
    assert cell.verdict is CellVerdict.RECOVERED and (found.planned, found.unjudged) == (1, 1)


def test_a_promise_that_is_kept_in_all_parts_is_unexpectedly_kept(tmp_path: Path) -> None:
    expected = ExpectedFailure("keeps", "", ("files",), (), "it was said")
    at = Every(("before_act",), 0, 1)
    found = campaign(tmp_path, toy.scenario(toy.spec(Kill(), at), expected=(expected,)), 2)
    _, _, cells, _ = results.read_parts(tmp_path)
    assert all(cell.passed for cell in cells)
    (cell,) = found.cells
    assert not cell.passed and cell.why.startswith("unexpectedly kept: files") and (cell.runs, cell.landed) == (2, 2)


def test_a_part_that_no_run_falls_to_is_neither_a_failure_nor_a_proof(tmp_path: Path) -> None:
    found = campaign(tmp_path, toy.scenario(toy.spec(Kill())), 2)  # one run
    _, _, (first, second), _ = results.read_parts(tmp_path)
    assert (first.runs, first.passed, first.verdict) == (0, True, CellVerdict.NOT_EXERCISED)
    assert first.why == "none of the 1 runs is in part 1 of 2" and second.runs == 1
    assert [(cell.passed, cell.verdict, cell.why) for cell in found.cells] == [
        (True, CellVerdict.RECOVERED, "the run recovered")
    ]


def test_no_point_is_no_pass_in_parts_either(tmp_path: Path) -> None:
    (cell,) = campaign(tmp_path, toy.scenario(toy.spec(Kill(), Fixed((99,), ("after_act",)))), 2).cells
    assert not cell.passed and cell.verdict is CellVerdict.NOT_EXERCISED
    assert "part 1 of 2 ran nothing: the reference run reached no point" in cell.why


def test_the_name_of_a_part_is_its_cell_s_with_its_number() -> None:
    (cell,) = toy.cells(toy.scenario(toy.spec(Kill())))
    assert [Cell(cell.scenario, cell.strategy, cell.fault, part=part).name for part in (WHOLE, Part(1, 4))] == [
        "keeps-kill", "keeps-kill-part1of4",
    ]  # fmt: skip
