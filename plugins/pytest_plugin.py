"""`pytest --chaos`: every `*.chaos.yaml` is a module, every cell of its matrix a test.

Without `--chaos` nothing is collected and nothing of the harness is imported: options and hooks only.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chaos.plugins import settings
from chaos.plugins.settings import Settings

if TYPE_CHECKING:
    from chaos.campaign import Runner
    from chaos.cell import Cell
    from chaos.plugins.api import ChaosRun, Ledger
    from chaos.plugins.at_hand import ChaosSandbox, ChaosWorld
    from chaos.plugins.gates import Closing
    from chaos.results import Campaign

_WORKER = "chaos"  # key of what pytest-xdist carries between the controller and its workers

SETTINGS = pytest.StashKey[Settings]()
BEGUN = pytest.StashKey[bool]()
COMPLAINT = pytest.StashKey[str]()
WHOLE = pytest.StashKey[list["Cell"]]()
CLOSING = pytest.StashKey["Closing"]()
RAN = pytest.StashKey["ChaosRun"]()
PROGRESS = "chaos progress"  # name of the plug-in that shows it


def pytest_addoption(parser: pytest.Parser) -> None:
    settings.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "chaos(...): a recovery scenario, or a cell of one")
    if not config.pluginmanager.hasplugin("xdist"):  # else pytest warns of a mark that nobody knows
        config.addinivalue_line("markers", "xdist_group(name): cells that one process of pytest-xdist runs")
    if not config.getoption("--chaos"):
        return
    from chaos.plugins.cells import CHOICE, Choice

    handed_on = getattr(config, "workerinput", {}).get(_WORKER)
    config.stash[SETTINGS] = found = Settings(*handed_on) if handed_on else settings.read(config)
    if not handed_on:
        from chaos.plugins import gates
        from chaos.plugins.progress import Progress

        gates.usage(found)
        config.pluginmanager.register(Progress(config, found), PROGRESS)
    config.stash[CHOICE] = Choice(config, found)


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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if SETTINGS not in metafunc.config.stash:
        return
    ours = any(name.startswith("chaos_") for name in metafunc.fixturenames)
    if ours or metafunc.definition.get_closest_marker("chaos"):
        from chaos.plugins import marks

        marks.parametrize(metafunc)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note what is asked for, and refuse names that no scenario has: else a typing error would be "nothing to run".

    That is after `-k` and `-m`, and before pytest-split, which registers later, takes the other groups' tests away.
    """
    if SETTINGS not in config.stash:
        return
    from chaos.plugins import marks
    from chaos.plugins.cells import CHOICE, of_items

    if unasked := list(filter(marks.without_cell, items)):
        items[:] = [item for item in items if not marks.without_cell(item)]
        config.hook.pytest_deselected(items=unasked)
    config.stash[WHOLE] = of_items(items)
    complaint = marks.doubled(items)
    if not complaint and (session.testsfailed or config.getoption("lf", False)):
        return  # a scenario that could not be read, or that --lf left out, may have the name
    if not (complaint := complaint or config.stash[CHOICE].complaint()):
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
    if SETTINGS not in session.config.stash:
        return
    stopped = session.testsfailed and not session.config.getoption("continue_on_collection_errors")
    if not stopped and any("chaos_runner" in getattr(item, "fixturenames", ()) for item in session.items):
        from chaos.plugins.cells import CHOICE, of_items

        cells = of_items(session.items)
        _begin(session.config, len({cell.order for cell in cells}))
        if (progress := session.config.pluginmanager.getplugin(PROGRESS)) and not session.config.option.collectonly:
            progress.announce(session.config.stash[CHOICE].planned(cells, cells).cells)


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
    from chaos.plugins import gates
    from chaos.route import Speed

    _begin(request.config)  # a test may ask for this fixture while it runs
    _plan(request)
    case = parse_case(found.case) if found.case else None
    addresses = dict(found.servers)
    budget, known = gates.read(found)
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
        budget=budget,
        baseline=known,
    )
    yield runner
    runner.close()
    leftovers.sweep_own()


@pytest.fixture
def chaos_cell(request: pytest.FixtureRequest) -> Cell:
    """The cell that this test is run for: a parameter of each test that takes `chaos_run`."""
    _settings(request)
    raise pytest.UsageError("chaos_run is an argument of the test: which cells it has is known before it runs")


@pytest.fixture
def chaos_run(request: pytest.FixtureRequest, chaos_cell: Cell, chaos_runner: Runner) -> ChaosRun:
    """What became of this test's cell of the scenario in its mark `chaos`. Skips without `--chaos`."""
    from chaos.plugins import marks

    made = marks.run(request.node, chaos_cell, chaos_runner, _settings(request).report)
    request.node.stash[RAN] = made
    return made


@pytest.fixture
def chaos_ledger(chaos_run: ChaosRun) -> tuple[Ledger, ...]:
    """The effects on the outside world of each run of `chaos_run`."""
    return chaos_run.ledgers


@pytest.fixture
def chaos_world(request: pytest.FixtureRequest) -> Iterator[ChaosWorld]:
    """The model and the services of the target in the test's mark `chaos`, on a free port. Skips without `--chaos`."""
    _settings(request)
    from chaos.plugins import marks
    from chaos.plugins.at_hand import ChaosWorld
    from chaos.plugins.cells import CHOICE

    world = ChaosWorld(marks.brain_of(request.node, request.config.stash[CHOICE].seed))
    try:
        yield world
    finally:
        world.close()


@pytest.fixture
def chaos_sandbox(request: pytest.FixtureRequest) -> Iterator[ChaosSandbox]:
    """A sandbox for processes that the test starts; they find `chaos_world`, if it has one. Skips without `--chaos`."""
    _settings(request)
    from chaos.plugins.at_hand import ChaosSandbox

    world = request.getfixturevalue("chaos_world").env if "chaos_world" in request.fixturenames else {}
    sandbox = ChaosSandbox(world)
    try:
        yield sandbox
    finally:
        sandbox.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Judge the cell of a test that takes `chaos_run`; what the test asserts itself comes on top."""
    if (made := item.stash.get(RAN, None)) is None:
        return (yield)
    from chaos.plugins import marks

    marks.before(item, made)
    yield
    marks.after(item, made)


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
    if hasattr(session.config, "workerinput") or not (campaign := _campaign(session.config)):
        return
    # Each part of such a cell has passed, and the whole has not: something that must break broke in none of them.
    parted = (cell for cell in campaign.cells if cell.parts > 1 and not cell.missing and not cell.known)
    failed = any(not cell.passed for cell in parted)
    session.config.stash[CLOSING] = closing = _close(session, campaign)
    if session.exitstatus == pytest.ExitCode.OK and (failed or closing.failed):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _close(session: pytest.Session, campaign: Campaign) -> Closing:
    """Return what the gates say of *campaign*, and have its line added to the history."""
    from chaos.plugins import gates
    from chaos.plugins.progress import processes

    progress: Any = session.config.pluginmanager.getplugin(PROGRESS)
    return gates.close(
        campaign,
        session.config.stash[SETTINGS],
        seconds=progress.seconds,
        processes=processes(session.config),
        ended=session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED),
    )


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
    from chaos.plugins import github
    from chaos.reports import html, terminal

    folder, report = Path(config.stash[SETTINGS].folder), Path(config.stash[SETTINGS].report)
    terminalreporter.section("chaos: strategy x fault")
    shown: str | None = str(report)
    try:
        html.write(campaign, folder, report)
    except OSError as error:
        terminalreporter.write_line(f"the report {report} cannot be written: {error.strerror}", red=True)
        shown = None
    closing = config.stash.get(CLOSING, None)
    extra = closing.lines if closing else ()
    for line in terminal.render(campaign, shown, terminalreporter._tw.fullwidth, extra):
        terminalreporter.write_line(line)
    github.tell(campaign, extra, shown or "", terminalreporter.write_line)
