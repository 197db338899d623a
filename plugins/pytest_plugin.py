"""`pytest --chaos`: every `*.chaos.yaml` is a module, every cell of its matrix a test.

Without `--chaos` nothing is collected and nothing of the harness is imported: options and hooks only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chaos.plugins import settings
from chaos.plugins.settings import Settings

if TYPE_CHECKING:
    from chaos.campaign import Runner
    from chaos.cell import Cell
    from chaos.results import Campaign

_WORKER = "chaos"  # key of what pytest-xdist carries between the controller and its workers

SETTINGS = pytest.StashKey[Settings]()
BEGUN = pytest.StashKey[bool]()
COMPLAINT = pytest.StashKey[str]()
WHOLE = pytest.StashKey[list["Cell"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    settings.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "chaos(scenario, strategy, fault): a cell of a recovery scenario")
    if not config.getoption("--chaos"):
        return
    from chaos.plugins.cells import CHOICE, Choice

    handed_on = getattr(config, "workerinput", {}).get(_WORKER)
    config.stash[SETTINGS] = Settings(*handed_on) if handed_on else settings.read(config)
    config.stash[CHOICE] = Choice(config, config.stash[SETTINGS])


def pytest_report_header(config: pytest.Config) -> str | None:
    if SETTINGS not in config.stash:
        return None
    from chaos.plugins.machine import capabilities

    able = ", ".join(f"{name}: {state}" for name, state in capabilities().items())
    return f"chaos: seed={config.stash[SETTINGS].seed}, {able}"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if SETTINGS not in parent.config.stash or not file_path.name.endswith(settings.SUFFIX):
        return None
    from chaos.plugins.cells import ScenarioFile

    module: ScenarioFile = ScenarioFile.from_parent(parent, path=file_path)
    return module


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note what is asked for, and refuse names that no scenario has: else a typing error would be "nothing to run".

    That is after `-k` and `-m`, and before pytest-split, which registers later, takes the other groups' tests away.
    """
    if SETTINGS not in config.stash:
        return
    from chaos.plugins.cells import CHOICE, of_items

    config.stash[WHOLE] = of_items(items)
    if session.testsfailed or config.getoption("lf", False):
        return  # a scenario that could not be read, or that --lf left out, may have the name
    if not (complaint := config.stash[CHOICE].complaint()):
        return
    if not hasattr(config, "workerinput"):
        raise pytest.UsageError(complaint)
    config.workeroutput[_WORKER] = complaint  # type: ignore[attr-defined]  # the controller raises it
    items.clear()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand the settings on to a worker of pytest-xdist that is about to start."""
    if SETTINGS in node.config.stash:
        node.workerinput[_WORKER] = tuple(node.config.stash[SETTINGS])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """Begin the campaign before the first worker of pytest-xdist gets something to run.

    Where something could not be collected nothing runs, as without pytest-xdist, which would run the rest.
    """
    if SETTINGS not in node.config.stash or BEGUN in node.config.stash:
        return
    session: Any = node.config.pluginmanager.getplugin("session")
    if session.testsfailed and not node.config.getoption("continue_on_collection_errors"):
        errors = f"{session.testsfailed} error{'s'[: session.testsfailed - 1]}"
        raise session.Interrupted(f"{errors} during collection")
    if ids:
        from chaos.plugins.cells import counted

        _begin(node.config, counted(ids))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker of pytest-xdist complains about; none if it crashed."""
    if complaint := getattr(node, "workeroutput", {}).get(_WORKER):
        node.config.stash[COMPLAINT] = complaint


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Begin the campaign now that something of it will run: until here, earlier results are safe."""
    stopped = session.testsfailed and not session.config.getoption("continue_on_collection_errors")
    if not stopped and any("chaos_runner" in getattr(item, "fixturenames", ()) for item in session.items):
        from chaos.plugins.cells import of_items

        _begin(session.config, len({cell.order for cell in of_items(session.items)}))


def _begin(config: pytest.Config, cells: int = 0) -> None:
    """Begin the results of so many *cells*, once; workers leave it to the controller, without `--chaos` none begin."""
    worker = hasattr(config, "workerinput")
    if SETTINGS in config.stash and BEGUN not in config.stash and not worker and not config.option.collectonly:
        config.stash[BEGUN] = True  # first: an interrupt in the middle of it must still lead to a summary
        try:
            settings.begin(config, config.stash[SETTINGS], cells)
        except pytest.UsageError:
            del config.stash[BEGUN]
            raise


@pytest.fixture(scope="session")
def chaos_seed(request: pytest.FixtureRequest) -> int:
    """The campaign's base seed; skips without `--chaos`."""
    return _settings(request).seed


@pytest.fixture(scope="session")
def chaos_runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    """What runs cells; its reference runs are shared by all tests of this process. Skips without `--chaos`."""
    found = _settings(request)
    from chaos import leftovers
    from chaos.campaign import Runner
    from chaos.plan import parse_case
    from chaos.route import Speed

    _begin(request.config)  # a test may ask for this fixture while it runs
    _plan(request)
    case = parse_case(found.case) if found.case else None
    addresses = dict(found.servers)
    runner = Runner(
        Path(found.folder),
        found.campaign,
        found.seed,
        found.runs,
        case,
        addresses,
        warm=not found.cold,
        backend=found.backend,
        toxiproxy=found.toxiproxy,
        no_skip=found.no_skip,
        speed=Speed(found.speed),
        verify=found.verify,
        shrink=found.shrink,
    )
    yield runner
    runner.close()
    leftovers.sweep_own()


def _plan(request: pytest.FixtureRequest) -> None:
    """Note what the campaign consists of, before its first cell runs; each worker does, and they agree."""
    from chaos import results
    from chaos.plugins.cells import CHOICE, of_items

    config = request.config
    if whole := config.stash.get(WHOLE, []):
        planned = config.stash[CHOICE].planned(whole, of_items(request.session.items))
        results.note(Path(config.stash[SETTINGS].folder), results.PLANNED, planned)


def _settings(request: pytest.FixtureRequest) -> Settings:
    found = request.config.stash.get(SETTINGS, None)
    if found is None:
        pytest.skip("needs --chaos")
    return found


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if complaint := session.config.stash.get(COMPLAINT, ""):
        raise pytest.UsageError(complaint)
    if session.exitstatus == pytest.ExitCode.OK and not hasattr(session.config, "workerinput"):
        campaign = _campaign(session.config)
        # Each part of such a cell has passed, and the whole has not: something that must break broke in none of them.
        if campaign and any(cell.parts > 1 and not cell.missing and not cell.passed for cell in campaign.cells):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _campaign(config: pytest.Config) -> Campaign | None:
    """Return what this session's campaign has left so far; None if it did not come to leave anything."""
    if BEGUN not in config.stash:
        return None
    from chaos import results
    from chaos.errors import HarnessError

    try:
        campaign = results.read(Path(config.stash[SETTINGS].folder))
    except HarnessError:
        return None  # interrupted before the first file was there
    # Interrupted while an earlier campaign's files were being replaced?
    return campaign if campaign.info.campaign == config.stash[SETTINGS].campaign else None


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if (campaign := _campaign(config)) is None:
        return
    from chaos.reports import html, terminal

    folder, report = Path(config.stash[SETTINGS].folder), Path(config.stash[SETTINGS].report)
    terminalreporter.section("chaos: strategy x fault")
    shown: str | None = str(report)
    try:
        report.write_text(html.render(campaign, folder), encoding="utf-8")
    except OSError as error:
        terminalreporter.write_line(f"the report {report} cannot be written: {error.strerror}", red=True)
        shown = None
    for line in terminal.render(campaign, shown, terminalreporter._tw.fullwidth):
        terminalreporter.write_line(line)
