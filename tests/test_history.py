"""The history of campaigns: figures, the file, and what the next campaign learns from it."""

from __future__ import annotations

from pathlib import Path
from statistics import median, quantiles

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import history
from chaos.errors import HarnessError
from chaos.history import Entry, StrategyFigures, percentile
from chaos.pace import Pace
from chaos.results import Campaign, CampaignInfo, CellResult, Landed, RecoveryTime, RunResult, Storage, Tokens
from chaos.verdict import CellVerdict


def run(number: int, strategy: str = "cow", **changes: object) -> RunResult:
    base = RunResult(
        campaign="c", scenario="s", strategy=strategy, fault="kill", run=number, seed=0, plan="kill@1/after_act",
        planned=1, landed=(Landed("kill", "1/after_act", "killed", {"status": -9}),), checks={},
        verdict=CellVerdict.RECOVERED, steps=10, rpo_steps=number, rto_seconds=RecoveryTime(load=1.0 + number),
        tokens=Tokens(100, 10 * number), storage=Storage(1000, 5000), seconds=2.0,
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def campaign(*runs: RunResult, passed: bool = True, digest: str = "d") -> Campaign:
    cell = CellResult(
        campaign="c", scenario="s", strategy="cow", fault="kill", verdict=CellVerdict.RECOVERED, passed=passed
    )
    info = CampaignInfo(campaign="c", seed=7, began="2026-11-30T00:00:00+00:00", command="", versions={}, machine={})
    return Campaign(info=info, runs=runs, cells=(cell,), scenarios={"s": digest})


def test_figures_are_of_the_runs_in_which_a_fault_landed() -> None:
    runs = [run(number) for number in range(5)]
    missed = run(5, landed=(), verdict=CellVerdict.NOT_EXERCISED)
    error = run(6, verdict=CellVerdict.HARNESS_ERROR)
    refused = run(7, verdict=CellVerdict.REFUSED, broke=("finishes",))
    [found] = history.figures(campaign(*runs, missed, error, refused), {"cow": 3})
    assert (found.strategy, found.runs, found.recovered, found.duplicates) == ("cow", 6, 5, 3)
    assert (found.rpo_p50, found.rto_p50, found.rto_p95) == (2.5, 3.0, 4.8)  # giving up is no recovery time
    assert (found.useful_tokens, found.asked_again_tokens, found.bytes_per_step) == (100.0, 28.3333, 100.0)
    assert found.run_seconds == 2.0


def test_no_run_no_figure() -> None:
    assert history.figures(campaign()) == ()
    [found] = history.figures(campaign(run(0, landed=(), verdict=CellVerdict.NOT_EXERCISED)))
    assert (found.runs, found.rpo_p50, found.rto_p95, found.bytes_per_step, found.duplicates) == (
        0,
        None,
        None,
        None,
        None,
    )


def test_the_shape_is_that_of_the_work() -> None:
    def shape(*runs: RunResult, digest: str = "d") -> str:
        [found] = history.figures(campaign(*runs, digest=digest))
        return found.shape

    same = shape(run(0), run(1))
    assert same == shape(run(3, verdict=CellVerdict.DIVERGED), run(9))
    assert len({same, shape(run(0)), shape(run(0), run(1), digest="e"), shape(run(0), run(1, fault="evict"))}) == 4


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=50))
def test_percentiles_are_those_of_the_standard_library(values: list[float]) -> None:
    assert percentile(values, 0.5) == pytest.approx(median(values))
    assert percentile(values, 0.95) == pytest.approx(quantiles(values, n=20, method="inclusive")[18])
    assert percentile(values, 1.0) == max(values) and percentile(values, 0.0) == min(values)


numbers = st.none() | st.floats(0, 1e9)
figures = st.builds(
    StrategyFigures, strategy=st.text(max_size=9), shape=st.text("0123456789abcdef", max_size=8),
    runs=st.integers(0, 99), recovered=st.integers(0, 99), rto_p95=numbers, bytes_per_step=numbers,
    duplicates=st.none() | st.integers(0, 9),
)  # fmt: skip
entries = st.builds(
    Entry, campaign=st.text(max_size=9), began=st.just("2026"), seed=st.integers(0, 2**63 - 1), cells=st.integers(0, 9),
    as_promised=st.integers(0, 9), strategies=st.lists(figures, max_size=3).map(tuple),
    broken=st.lists(st.text(max_size=20), max_size=3).map(tuple),
)  # fmt: skip


@given(st.lists(entries, max_size=4), st.integers(0, 200))
def test_what_is_appended_is_read_and_a_torn_line_is_left_out(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Entry], cut: int
) -> None:
    path = tmp_path_factory.mktemp("history") / "sub" / "history.jsonl"
    for line in lines:
        history.append(path, line)
    assert history.read(path) == tuple(lines)
    if not lines:
        return
    data = path.read_bytes()
    cut = min(max(cut, 1), len(data.splitlines()[-1]))
    path.write_bytes(data[: -1 - cut])  # the job was killed while it wrote
    assert history.read(path) == tuple(lines[:-1])
    history.append(path, lines[0])
    assert history.read(path) == (*lines[:-1], lines[0])


def test_another_file_is_refused_and_one_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text('{"other": 1}\n')
    with pytest.raises(HarnessError, match="file:1: no line of a history"):
        history.read(tmp_path / "file")
    [line] = [history.entry(campaign(run(0)))]
    with pytest.raises(HarnessError, match="cannot be written"):
        history.append(tmp_path / "file" / "history.jsonl", line)


def test_an_entry_counts_what_is_as_promised() -> None:
    line = history.entry(campaign(run(0), passed=False), commit="abc", broken=["x", "x"], seconds=3.0, processes=2)
    assert (line.cells, line.as_promised, line.broken, line.commit, line.seed) == (1, 0, ("x",), "abc", 7)


def test_the_pace_is_that_of_earlier_campaigns_and_then_its_own() -> None:
    assert Pace().left({"cow": 3}) is None
    line = history.entry(campaign(run(0), run(1)), seconds=6.0)  # two runs of 2 s, and 2 s for the reference
    pace = Pace([line])
    assert pace.left({"cow": 10}) == pytest.approx(10 * 2.0 * 1.5)
    assert pace.left({"cow": 10, "unknown": 10}, processes=2) == pytest.approx(30.0)
    pace.add("cow", 4.0)
    assert pace.left({"cow": 2}, elapsed=4.0) == pytest.approx(8.0)
    assert pace.left({"cow": 2}, elapsed=8.0) == pytest.approx(16.0)
    assert pace.left({}) == 0.0
