"""A failure as a test that needs no `--chaos`: the reference and one case, run for real, anywhere."""

from __future__ import annotations

import contextlib
import shutil
import textwrap
import unittest
from dataclasses import replace
from pathlib import Path

import msgspec

from chaos import leftovers, results, seeds
from chaos.campaign import Runner
from chaos.cell import Cell, chain_of
from chaos.errors import ScenarioError
from chaos.plan import Case, parse_case
from chaos.results import CellResult, RunResult
from chaos.scenario import Scenario
from chaos.scenario.loader import load
from chaos.variants import name_of
from chaos.verdict import Outcome

KEPT = Path(".chaos", "reproduced")
"""Where a failure leaves its scenario, results and journals, below the working directory; a pass leaves nothing."""


def reproduce(scenario: str | Path, case: str = "", seed: int | None = None) -> RunResult:
    """Run one case of *scenario* against its reference; return what became of it if the agent recovered.

    Args:
        scenario: the text of a scenario, or the path of its file. What it allows to break is no failure.
        case: the run, as it is printed with a failure ("kill@3/after_act#0"); by default the first that the scenario
            plans.
        seed: base seed, instead of the scenario's own.

    Raises:
        AssertionError: the agent did not recover, or nothing was proved: with what broke, and the command to replay it.
        ScenarioError: the scenario or the case is wrong.
        unittest.SkipTest: this machine cannot run it; pytest reports that as a skip.
    """
    __tracebackhide__ = True  # pytest shows the test, which is the user's
    folder = leftovers.folder("reproduce-")
    try:
        path = _written(scenario, folder) if isinstance(scenario, str) else scenario
        cell, only = _cell(load(path, seed, seeds.fresh()), case)
        kept = KEPT / cell.scenario.name / cell.name
        if path != scenario:  # the replay command is of what is kept
            cell = replace(cell, scenario=replace(cell.scenario, path=kept / path.name))
        result, run = _run(cell, only, folder)
        if result.skipped:
            raise unittest.SkipTest(result.skipped)
        if run is not None and result.passed:
            return run
        _keep(folder, kept)
        raise AssertionError(_told(result, run, kept))
    finally:
        leftovers.remove(folder)


def _written(text: str, folder: Path) -> Path:
    path = folder / "scenario.chaos.yaml"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def _cell(scenario: Scenario, case: str) -> tuple[Cell, Case | None]:
    """Return the cell of *scenario* that has the faults of *case*; the only one if no case is given."""
    only = parse_case(case) if case else None
    wanted = {name_of(planned.fault) for planned in only.plan.faults} if only else set()
    faults = [spec for spec in scenario.faults if wanted <= {each.label for each in chain_of(spec)}]
    if not faults:
        known = ", ".join(spec.label for spec in scenario.faults)
        raise ScenarioError(f"the case names {', '.join(sorted(wanted))}; the scenario has {known}")
    if len(scenario.strategies) > 1 or (only is None and len(faults) > 1):
        raise ScenarioError("a reproduction is one run of one cell: name one strategy, and one fault or a case")
    return Cell(scenario, scenario.strategies[0], faults[0]), only


def _run(cell: Cell, case: Case | None, folder: Path) -> tuple[CellResult, RunResult | None]:
    runner = Runner(folder, "reproduction", cell.scenario.seed or 0, runs=1, case=case)
    try:
        result = runner.run_cell(cell)
    finally:
        runner.close()
    lines = (folder / results.RUNS).read_bytes().splitlines() if result.runs else []
    return result, msgspec.json.decode(lines[0], type=RunResult) if lines else None


def _keep(folder: Path, kept: Path) -> None:
    """Keep what *folder* has as *kept*, in place of an earlier failure, if it can be written there."""
    with contextlib.suppress(OSError):
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept)
        ignored = KEPT.parent / ".gitignore"
        if not ignored.exists():
            ignored.write_text("# made by pytest-chaos\n*\n", encoding="utf-8")


def _told(cell: CellResult, run: RunResult | None, kept: Path) -> str:
    """Return the finding, the promises that broke, and how to run it again."""
    lines = [f"{cell.strategy} x {cell.fault}: {cell.verdict}", f"  {cell.why}"]
    if run is not None:
        lines[0] += f" ({run.plan})"
        broke = {name: verdict for name, verdict in run.checks.items() if verdict.outcome is not Outcome.PASS}
        lines += [f"  {name}: {verdict.finding}" for name, verdict in broke.items()]
        lines += [f"  {run.error}"] if run.error else []
    if kept.exists():
        lines.append(f"  journals: {kept}")
    if run is not None:
        lines.append(f"  replay: {run.replay}")
    return "\n".join(lines)
