"""The budget of time: what has not begun when it is used up is not judged, and what broke by then is not hidden."""

from __future__ import annotations

from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from chaos.budget import Budget, Spent, begun
from chaos.campaign import Runner
from chaos.explorers.every import Every
from chaos.explorers.fixed import Fixed
from chaos.faults.kill import Kill
from chaos.results import CellResult
from chaos.scenario import FaultSpec, StrategySpec
from tests import toy

EVERY = toy.spec(Kill(), Every(phases=("after_act",)))  # three runs of three steps


def looks(number: int) -> Budget:
    """Return a budget that is used up when somebody has looked so many times: before the cell, and before each run."""
    ticks = count(1)
    return Budget(60.0, number + 1.0, lambda: float(next(ticks)))


def ran(folder: Path, budget: Budget, strategy: StrategySpec = toy.KEEPS, fault: FaultSpec = EVERY) -> CellResult:
    made = toy.scenario(fault, strategies=(strategy,))
    with closing(Runner(folder, "campaign", toy.SEED, budget=budget)) as runner:
        return runner.run_cell(toy.cells(made)[0])


def test_a_clock_that_only_grows() -> None:
    times = iter([10.0, 15.9, 16.0, 16.0])
    budget = begun(6.0, lambda: next(times))
    assert not budget.spent and budget.spent
    with pytest.raises(Spent, match="the budget of 6s is used up"):
        budget.check()
    assert not Budget().spent


@pytest.mark.parametrize(
    ("number", "told"),
    [(0, "is used up before it began"), (1, "is used up before it began"), (3, "after 2 of about 3 runs")],
)
def test_a_cell_that_is_cut_is_no_result(tmp_path: Path, number: int, told: str) -> None:
    result = ran(tmp_path, looks(number))
    assert result.skipped.startswith("not judged: the budget of 1m ") and told in result.skipped and not result.passed
    assert toy.cell_results(tmp_path) == [] and len(toy.runs(tmp_path)) == max(number - 1, 0)


def test_what_broke_before_the_cut_fails(tmp_path: Path) -> None:
    late = toy.spec(Kill(), Fixed((2,), ("after_act", "after_commit")))
    result = ran(tmp_path, looks(2), toy.FORGETS, late)
    assert not result.skipped and not result.passed and result.runs == 1 and result.findings
    assert result.why.endswith("; the budget of 1m is used up") and toy.cell_results(tmp_path) == [result]


def test_enough_time_changes_nothing(tmp_path: Path) -> None:
    result = ran(tmp_path, begun(60.0, lambda: 0.0))
    assert result.passed and result.runs == 3 and toy.cell_results(tmp_path) == [result]
