"""`pytest --chaos`: every `*.chaos.yaml` is a module, every cell of its matrix a test.

Without `--chaos` nothing is collected and nothing of the harness is imported: options and hooks only.
"""

from __future__ import annotations

import os
import types
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from chaos.campaign import Cell, Runner
    from chaos.results import CellResult
    from chaos.scenario import Scenario

SUFFIX = ".chaos.yaml"
DEFAULT_RESULTS = ".chaos"
_OPTIONS = (
    ("--chaos-seed", "N", int, "Base seed of all randomness; a new one, always printed, by default."),
    ("--chaos-runs", "N", int, "Runs of each cell, instead of what the scenario says."),
    ("--chaos-strategy", "NAME[,NAME]", str, "Only these recovery strategies (name or label)."),
    ("--chaos-fault", "NAME[,NAME]", str, "Only these faults (kind or label)."),
    ("--chaos-case", "PLAN#RUN", str, "Replay exactly this run, as printed with a failure."),
    ("--chaos-results", "DIR", str, "Where results and journals go (default: .chaos)."),
    ("--chaos-report", "FILE", str, "The HTML report (default: report.html among the results)."),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("chaos", "recovery testing of long-running agents")
    _add(group, "--chaos", action="store_true", default=False, help=f"Run the scenarios in *{SUFFIX} files.")
    for name, metavar, kind, text in _OPTIONS:
        variable = name.removeprefix("--").replace("-", "_").upper()
        _add(
            group,
            name,
            metavar=metavar,
            type=kind,
            default=os.environ.get(variable),
            help=f"{text} Environment: {variable}.",
        )


def _add(group: pytest.OptionGroup, name: str, **options: Any) -> None:
    """Add an option; another plugin that has taken the name first keeps it."""
    try:
        group.addoption(name, **options)
    except ValueError:
        pytest.PytestConfigWarning(f"another plugin defines {name}; pytest-chaos uses its value")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "chaos(scenario, strategy, fault): a cell of a recovery scenario")
    if config.getoption("--chaos") and not hasattr(config, "workerinput"):
        _begin(config)


def _begin(config: pytest.Config) -> None:
    """Fix the campaign's seed, name and folder; xdist hands the options on to its workers."""
    from chaos import results, seeds
    from chaos.errors import ScenarioError
    from chaos.plugins.machine import campaign_info

    option = config.option
    option.chaos_seed = seeds.fresh() if option.chaos_seed is None else int(option.chaos_seed)
    option.chaos_results = str(config.invocation_params.dir / (option.chaos_results or DEFAULT_RESULTS))
    try:
        _case(config)
    except ScenarioError as error:
        raise pytest.UsageError(f"--chaos-case: {error}") from None
    info = campaign_info(option.chaos_seed, config.invocation_params.args)
    option.chaos_campaign = info.campaign
    if not option.collectonly:
        results.write_info(Path(option.chaos_results), info)


def _case(config: pytest.Config) -> Any:
    from chaos.campaign import parse_case

    text = config.getoption("--chaos-case")
    return parse_case(text) if text else None


def pytest_report_header(config: pytest.Config) -> str | None:
    if not config.getoption("--chaos"):
        return None
    from chaos.plugins.machine import capabilities

    able = ", ".join(f"{name}: {state}" for name, state in capabilities().items())
    return f"chaos: seed={config.option.chaos_seed}, {able}"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if parent.config.getoption("--chaos") and file_path.name.endswith(SUFFIX):
        module: ScenarioFile = ScenarioFile.from_parent(parent, path=file_path)
        return module
    return None


class ScenarioFile(pytest.Module):
    """A scenario as a test module: one function, parametrised by its cells."""

    def _getobj(self) -> types.ModuleType:
        from chaos.errors import ScenarioError
        from chaos.scenario.loader import load

        try:
            scenario = load(self.path, self.config.option.chaos_seed)
        except ScenarioError as error:
            raise self.CollectError(str(error)) from None
        module = types.ModuleType(self.path.name.removesuffix(SUFFIX).replace("-", "_"))
        cells = list(_cells(scenario, self.config))
        function = _function(cells)
        setattr(module, f"test_{module.__name__}", function)
        return module


def _cells(scenario: Scenario, config: pytest.Config) -> Iterator[Cell]:
    from chaos.campaign import Cell

    strategies, faults = _words(config, "--chaos-strategy"), _words(config, "--chaos-fault")
    for strategy in scenario.strategies:
        for fault in scenario.faults:
            if strategies and not {strategy.label, strategy.name} & strategies:
                continue
            if faults and not {fault.label, fault.kind} & faults:
                continue
            yield Cell(scenario, strategy, fault)


def _words(config: pytest.Config, option: str) -> set[str]:
    return set(filter(None, (config.getoption(option) or "").split(",")))


def _function(cells: list[Cell]) -> types.FunctionType:
    def test(chaos_cell: Cell, chaos_runner: Runner, record_property: Any) -> None:
        _report(chaos_runner.run_cell(chaos_cell), record_property)

    parameters = [
        pytest.param(
            cell,
            id=cell.name,
            marks=[
                pytest.mark.chaos(scenario=cell.scenario.name, strategy=cell.strategy.name, fault=cell.fault.kind),
                # Cells of one strategy share their reference run: `--dist loadgroup` keeps them together.
                pytest.mark.xdist_group(cell.strategy.label),
                *(getattr(pytest.mark, tag.replace("-", "_")) for tag in cell.scenario.tags),
            ],
        )
        for cell in cells
    ]
    function: types.FunctionType = pytest.mark.parametrize("chaos_cell", parameters)(test)
    return function


def _report(result: CellResult, record_property: Any) -> None:
    """Turn what the cell amounts to into pytest's own outcomes."""
    for name in ("scenario", "strategy", "fault", "verdict", "runs", "planned", "landed", "replay"):
        record_property(f"chaos.{name}", str(getattr(result, name)))
    if result.skipped:
        pytest.skip(result.skipped)
    if not result.passed:
        replay = f"\n  replay: {result.replay}" if result.replay else ""
        pytest.fail(f"{result.strategy} x {result.fault}: {result.verdict}\n  {result.why}{replay}", pytrace=False)
    if result.expected:
        pytest.xfail(result.why)


@pytest.fixture(scope="session")
def chaos_seed(request: pytest.FixtureRequest) -> int:
    """The campaign's base seed."""
    return int(request.config.option.chaos_seed or 0)


@pytest.fixture(scope="session")
def chaos_runner(request: pytest.FixtureRequest, chaos_seed: int) -> Runner:
    """What runs cells; its references are shared by all tests of this process."""
    from chaos.campaign import Runner

    option = request.config.option
    runs = int(option.chaos_runs) if option.chaos_runs is not None else None
    return Runner(Path(option.chaos_results), option.chaos_campaign, chaos_seed, runs, _case(request.config))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not config.getoption("--chaos") or hasattr(config, "workerinput") or config.option.collectonly:
        return
    from chaos import results
    from chaos.reports import html, terminal

    folder = Path(config.option.chaos_results)
    campaign = results.read(folder)
    if not campaign.cells and not campaign.runs:
        return
    report = Path(config.getoption("--chaos-report") or folder / "report.html")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(html.render(campaign, folder), encoding="utf-8")
    terminalreporter.section("chaos: strategy x fault")
    for line in terminal.render(campaign, str(report), terminalreporter._tw.fullwidth):
        terminalreporter.write_line(line)
