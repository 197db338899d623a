"""`pytest --chaos`: every `*.chaos.yaml` is a module, every cell of its matrix a test.

Without `--chaos` nothing is collected and nothing of the harness is imported: options and hooks only.
"""

from __future__ import annotations

import os
import types
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from chaos.campaign import Cell, Runner
    from chaos.results import CellResult
    from chaos.scenario import Scenario

SUFFIX = ".chaos.yaml"
DEFAULT_RESULTS = ".chaos"
WORKER_KEY = "chaos"
_OPTIONS = (
    ("--chaos-seed", "N", "Base seed of all randomness; a new one, always printed, by default."),
    ("--chaos-runs", "N", "Runs of each cell, instead of what the scenario says."),
    ("--chaos-strategy", "NAME[,NAME]", "Only these recovery strategies (name or label)."),
    ("--chaos-fault", "NAME[,NAME]", "Only these faults (kind or label)."),
    ("--chaos-case", "PLAN#RUN", "Replay exactly this run, as printed with a failure."),
    ("--chaos-results", "DIR", "Where results and journals go (default: .chaos)."),
    ("--chaos-report", "FILE", "The HTML report (default: report.html among the results)."),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("chaos", "recovery testing of long-running agents")
    _add(group, "--chaos", action="store_true", default=False, help=f"Run the scenarios in *{SUFFIX} files.")
    for name, metavar, text in _OPTIONS:
        variable = name.removeprefix("--").replace("-", "_").upper()
        default = os.environ.get(variable)
        _add(group, name, metavar=metavar, default=default, help=f"{text} Environment: {variable}.")


def _add(group: pytest.OptionGroup, name: str, **options: Any) -> None:
    """Add an option; another plugin that has taken the name first keeps it."""
    try:
        group.addoption(name, **options)
    except ValueError:
        pytest.PytestConfigWarning(f"another plugin defines {name}; pytest-chaos uses its value")


class Settings(NamedTuple):
    """What all processes of one campaign agree on; xdist's workers get it from the controller."""

    seed: int
    campaign: str
    folder: str
    runs: int | None
    case: str


SETTINGS = pytest.StashKey[Settings]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "chaos(scenario, strategy, fault): a cell of a recovery scenario")
    if not config.getoption("--chaos"):
        return
    handed_on = getattr(config, "workerinput", {}).get(WORKER_KEY)
    config.stash[SETTINGS] = Settings(*handed_on) if handed_on else _begin(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand the settings on to a worker of pytest-xdist that is about to start."""
    if settings := node.config.stash.get(SETTINGS, None):
        node.workerinput[WORKER_KEY] = tuple(settings)


def _begin(config: pytest.Config) -> Settings:
    """Fix the campaign's seed, name and folder, and begin its results."""
    from chaos import results, seeds
    from chaos.campaign import parse_case
    from chaos.errors import ScenarioError
    from chaos.plugins.machine import campaign_info

    seed = _number(config, "--chaos-seed")
    case = config.getoption("--chaos-case") or ""
    try:
        if case:
            parse_case(case)
    except ScenarioError as error:
        raise pytest.UsageError(f"--chaos-case: {error}") from None
    info = campaign_info(seeds.fresh() if seed is None else seed, config.invocation_params.args)
    folder = config.invocation_params.dir / (config.getoption("--chaos-results") or DEFAULT_RESULTS)
    if not config.option.collectonly:
        try:
            results.write_info(folder, info)
        except OSError as error:
            raise pytest.UsageError(f"--chaos-results: cannot write to {folder}: {error.strerror}") from None
    return Settings(info.seed, info.campaign, str(folder), _number(config, "--chaos-runs", 1), case)


def _number(config: pytest.Config, option: str, least: int = 0) -> int | None:
    """Return the value of *option*, which may come from the environment and so be any text."""
    text = config.getoption(option)
    if text is None:
        return None
    if not str(text).isdecimal() or int(text) < least:
        raise pytest.UsageError(f"{option} takes a whole number from {least} on, not {text!r}")
    return int(text)


def pytest_report_header(config: pytest.Config) -> str | None:
    if not config.getoption("--chaos"):
        return None
    from chaos.plugins.machine import capabilities

    able = ", ".join(f"{name}: {state}" for name, state in capabilities().items())
    return f"chaos: seed={config.stash[SETTINGS].seed}, {able}"


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
            scenario = load(self.path, self.config.stash[SETTINGS].seed)
        except ScenarioError as error:
            raise self.CollectError(str(error)) from None
        for tag in scenario.tags:
            self.config.addinivalue_line("markers", f"{_mark(tag)}: a tag of chaos scenarios")
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
                *(getattr(pytest.mark, _mark(tag)) for tag in cell.scenario.tags),
            ],
        )
        for cell in cells
    ]
    function: types.FunctionType = pytest.mark.parametrize("chaos_cell", parameters)(test)
    return function


def _mark(tag: str) -> str:
    return tag.replace("-", "_")


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
    """The campaign's base seed; skips without `--chaos`."""
    return _settings(request).seed


@pytest.fixture(scope="session")
def chaos_runner(request: pytest.FixtureRequest) -> Runner:
    """What runs cells; its reference runs are shared by all tests of this process. Skips without `--chaos`."""
    from chaos.campaign import Runner, parse_case

    settings = _settings(request)
    case = parse_case(settings.case) if settings.case else None
    return Runner(Path(settings.folder), settings.campaign, settings.seed, settings.runs, case)


def _settings(request: pytest.FixtureRequest) -> Settings:
    settings = request.config.stash.get(SETTINGS, None)
    if settings is None:
        pytest.skip("needs --chaos")
    return settings


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not config.getoption("--chaos") or hasattr(config, "workerinput") or config.option.collectonly:
        return
    from chaos import results
    from chaos.reports import html, terminal

    folder = Path(config.stash[SETTINGS].folder)
    campaign = results.read(folder)
    if not campaign.cells and not campaign.runs:
        return
    report = Path(config.getoption("--chaos-report") or folder / "report.html")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(html.render(campaign, folder), encoding="utf-8")
    terminalreporter.section("chaos: strategy x fault")
    for line in terminal.render(campaign, str(report), terminalreporter._tw.fullwidth):
        terminalreporter.write_line(line)
