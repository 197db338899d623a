"""A divided cell as one: every way in which its parts may not be all of one whole."""

from __future__ import annotations

from typing import Any

import msgspec

from chaos.results import CellResult, Expects, Minimal, RunResult
from chaos.verdict import PASS, CellVerdict, fail
from chaos.whole import wholes

KEY = {"campaign": "c", "scenario": "s", "strategy": "delta", "fault": "kill"}


def part(number: int, of: int = 2, **more: Any) -> CellResult:
    made: dict[str, Any] = {
        "verdict": CellVerdict.RECOVERED, "passed": True, "runs": 2, "planned": 2, "landed": 2, "plans": "4 plans (0)",
    }  # fmt: skip
    return CellResult(**{**KEY, **made, "part": number, "parts": of, **more})


def runs(*verdicts: CellVerdict) -> list[RunResult]:
    return [
        RunResult(
            **KEY,
            run=number,
            seed=1,
            plan=f"kill@{number}/after_act",
            planned=1,
            landed=(),
            verdict=verdict,
            checks={"files": fail("gone") if verdict is CellVerdict.DIVERGED else PASS},
            broke=("files",) if verdict is CellVerdict.DIVERGED else (),
            replay=f"replay {number}",
        )
        for number, verdict in enumerate(verdicts)
    ]


GOOD = [CellVerdict.RECOVERED] * 4


def whole(parts: list[CellResult], of: list[RunResult] | None = None) -> CellResult:
    (cell,) = wholes(parts, runs(*GOOD) if of is None else of)
    return cell


def test_all_parts_are_one_cell() -> None:
    cell = whole([part(1), part(2, real_because="it is so")])
    assert (cell.passed, cell.verdict, cell.why) == (True, CellVerdict.RECOVERED, "all 4 runs recovered")
    assert (cell.runs, cell.planned, cell.real_because) == (4, 4, "it is so")
    assert (cell.part, cell.parts, cell.missing) == (1, 2, ())


def test_what_several_parts_have_made_small_is_kept_once() -> None:
    made: dict[str, Any] = {"verdict": CellVerdict.DIVERGED, "finding": "f", "was": "w", "case": "c"}
    small = [Minimal(**made, check=check, runs=runs) for check, runs in (("files", 1), ("files", 2), ("state", 3))]
    cell = whole([part(1, minimal=(small[0],)), part(2, minimal=tuple(small[1:]))])
    assert cell.minimal == (small[0], small[2])


def test_the_worst_run_is_the_cell_s() -> None:
    cell = whole([part(1), part(2, passed=False)], runs(*GOOD[:3], CellVerdict.DIVERGED))
    assert (cell.passed, cell.verdict, cell.why) == (False, CellVerdict.DIVERGED, "files broke in 1 of 4 runs")
    assert (cell.findings, cell.replay) == ({"files": "gone"}, "replay 3")


def test_undivided_cells_stay_as_they_are_and_where_they_are() -> None:
    other = msgspec.structs.replace(part(1, 1), strategy="cow")
    cells = wholes([part(1), part(2), other], runs(*GOOD))
    assert [cell.strategy for cell in cells] == ["delta", "cow"] and cells[1] == other


def test_what_broke_as_expected_is_judged_by_the_expectation_that_is_kept_with_a_part() -> None:
    expects = (Expects(("files",), (), "it is so"), Expects((), ("state",), "not this"))
    told = [part(number, expects=expects) for number in (1, 2)]
    cell = whole(told, runs(*GOOD[:3], CellVerdict.DIVERGED))
    assert (cell.passed, cell.expected, cell.why) == (True, True, "broke as expected: files (it is so)")
    assert whole(told).why == "unexpectedly kept: files; remove it from expected_failures"


def test_a_missing_part_hides_no_failure() -> None:
    cell = whole([part(2, passed=False)], runs(*GOOD[:1], CellVerdict.DIVERGED))
    assert cell.missing == (1,) and not cell.passed and cell.verdict is CellVerdict.DIVERGED
    assert cell.why == "part 1 of 2 is missing; files broke in 1 of 2 runs"


def test_parts_of_different_plans_prove_nothing() -> None:
    cell = whole([part(1), part(2, plans="5 plans (1)")])
    assert (cell.passed, cell.verdict) == (False, CellVerdict.UNKNOWN)
    assert cell.why == "part 1 is of 4 plans (0) but part 2 is of 5 plans (1)"


def test_parts_of_different_divisions_prove_nothing() -> None:
    cell = whole([part(1), part(2), part(3, of=3)])
    assert not cell.passed and "it was divided in 2 and in 2 and in 3" in cell.why


def test_runs_that_are_not_there_are_missed() -> None:
    cell = whole([part(1), part(2)], runs(*GOOD[:3]))
    assert not cell.passed and cell.why == "only 3 of 4 runs are there"


def test_a_part_that_could_not_run_is_told() -> None:
    idle = part(2, verdict=CellVerdict.HARNESS_ERROR, passed=False, runs=0, plans="", why="the disk is full")
    cell = whole([part(1), idle], runs(*GOOD[:2]))
    assert (cell.passed, cell.verdict) == (False, CellVerdict.HARNESS_ERROR)
    assert cell.why == "part 2 of 2 ran nothing: the disk is full"


def test_a_cell_is_skipped_only_if_all_of_it_is() -> None:
    skip: dict[str, Any] = {"verdict": CellVerdict.NOT_EXERCISED, "runs": 0, "plans": "", "skipped": "no cgroup"}
    assert whole([part(1, **skip), part(2, **skip)], []).skipped == "no cgroup"
    cell = whole([part(1), part(2, **skip)], runs(*GOOD[:2]))
    assert not cell.skipped and not cell.passed and cell.why == "part 2 of 2 ran nothing: no cgroup"
