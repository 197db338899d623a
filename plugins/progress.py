"""Progress of a campaign: an estimate before it, and on long cells a line that says how far they are.

On a terminal the line is rewritten in place; elsewhere it is a heartbeat, so that no CI takes a long cell for a job
that hangs. What is told is read from the results folder: that is the same with pytest-xdist, whose workers write there.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos import history
from chaos.errors import HarnessError
from chaos.pace import Pace
from chaos.plugins.screen import Screen
from chaos.plugins.settings import SUFFIX, Settings
from chaos.results import CELLS, PLANNED, RUNS
from chaos.shards import Key, Planned, PlannedCell

HEARTBEAT = 30.0
"""Seconds without a word after which a line is written where it cannot be rewritten: CI systems end silent jobs."""

REWRITE = 0.25
"""Seconds between two states of the line on a terminal: as fast as anybody reads."""

LONG = 1.0
"""Seconds after which a cell is long: shorter ones would make the line flicker."""

SHOWN = 3
"""Cells that are named of those that run at the same time."""


class _Run(msgspec.Struct):
    """What is told of a run: a part of `RunResult`."""

    scenario: str
    strategy: str
    fault: str
    planned: int
    landed: list[msgspec.Raw]
    verdict: str
    broke: list[str] = []
    expected: list[str] = []
    seconds: float = 0.0


class _Cell(msgspec.Struct):
    """What is told of a cell: a part of `CellResult`."""

    scenario: str
    strategy: str
    fault: str
    part: int = 1


class Tail:
    """The lines of the file *path* that have been added since they were last asked for."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0

    def lines(self) -> Iterator[bytes]:
        """Yield the new lines; of one that is being written nothing."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                whole = file.read().rpartition(b"\n")[0]
        except OSError:
            return  # not there yet
        if whole:
            self._at += len(whole) + 1
            yield from whole.split(b"\n")


class Tally:
    """What the campaign in *folder* consists of, and what became of it so far."""

    def __init__(self, folder: Path) -> None:
        self.planned: tuple[PlannedCell, ...] = ()
        self._folder, self._runs, self._cells = folder, Tail(folder / RUNS), Tail(folder / CELLS)
        self._counts: dict[Key, list[int]] = {}  # runs, planned faults, landed ones, failed runs
        self._done: set[tuple[Key, int]] = set()

    def update(self, pace: Pace) -> None:
        """Read what is new, and tell *pace* about it."""
        if not self.planned and (path := self._folder / PLANNED).exists():
            plan = msgspec.json.decode(path.read_bytes(), type=Planned)
            self.planned = tuple(cell for cell in plan.cells if cell.here)
        for line in self._runs.lines():
            run = msgspec.json.decode(line, type=_Run)
            counts = self._counts.setdefault((run.scenario, run.strategy, run.fault), [0, 0, 0, 0])
            for place, more in enumerate((1, run.planned, len(run.landed), _failed(run))):
                counts[place] += more
            pace.add(run.strategy, run.seconds)
        for line in self._cells.lines():
            cell = msgspec.json.decode(line, type=_Cell)
            self._done.add(((cell.scenario, cell.strategy, cell.fault), cell.part))

    @property
    def cells(self) -> str:
        """How many cells, or parts of some, are done."""
        return (
            f"{len(self._done)} of {len(self.planned)} cells done" if self.planned else f"{len(self._done)} cells done"
        )

    def remaining(self) -> dict[str, int]:
        """Return about how many runs there are left, by strategy."""
        left: dict[str, int] = {}
        for cell in self.planned:
            if (cell.key, cell.part) not in self._done:
                left[cell.strategy] = left.get(cell.strategy, 0) + cell.runs
        for key, counts in self._counts.items():  # of cells that are running
            if any(cell.key == key and (key, cell.part) not in self._done for cell in self.planned):
                left[key[1]] = max(left.get(key[1], 0) - counts[0], 0)
        return left

    def told(self, nodeid: str) -> str:
        """Return how far the cell is whose test is *nodeid*."""
        name = re.sub(r"-part\d+of\d+$", "", nodeid[nodeid.find("[") + 1 : nodeid.rfind("]")])
        file = Path(nodeid.split("::")[0]).name
        same = [
            cell for cell in self.planned if f"{cell.strategy}-{cell.fault}" == name and Path(cell.file).name == file
        ]
        if not same:
            return name
        runs, planned, landed, failed = self._counts.get(same[0].key, (0, 0, 0, 0))
        about = sum(cell.runs for cell in same)
        told = f"{same[0].strategy} x {same[0].fault}: {runs} of about {max(about, runs)} runs"
        missed = f", {planned - landed} missed" if planned > landed else ""
        return f"{told}, {landed} landed{missed}, {failed} failed" if runs else f"{told}: its reference runs first"


def _failed(run: _Run) -> bool:
    stopped = run.verdict in ("refused", "stuck") and "finishes" not in run.expected
    return stopped or bool(set(run.broke) - set(run.expected)) or run.verdict in ("harness error", "unknown")


class Progress:
    """The plug-in: shows progress on the terminal of *config*, of the campaign that *settings* are about."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config, self._tally = config, Tally(Path(settings.folder))
        self._pace = Pace(_entries(settings))
        self._screen: Screen | None = None
        self._running: dict[str, float] = {}  # the tests of cells, and when they began
        self._began = 0.0
        self._told = config.get_verbosity() < 0  # the estimate; with -q nobody wants it
        self._ended, self._paused = threading.Event(), False
        self._thread: threading.Thread | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        try:
            self._screen = Screen(reporter, self._config) if reporter else None
        except (AttributeError, OSError, ValueError):
            return  # no file that pytest writes to: an editor runs it, say

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if f"{SUFFIX}::" in nodeid:
            self._began = self._began or time.monotonic()
            self._running[nodeid] = time.monotonic()
            if self._screen and self._thread is None:
                self._thread = threading.Thread(target=self._go, name="chaos progress", daemon=True)
                self._thread.start()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._running.pop(nodeid, None)
        if self._screen and not self._running:
            self._screen.erase()

    def pytest_enter_pdb(self) -> None:
        self._paused = True
        if self._screen:
            self._screen.erase()

    def pytest_leave_pdb(self) -> None:
        self._paused = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self.close()

    def pytest_unconfigure(self) -> None:
        self.close()

    @property
    def seconds(self) -> float:
        """Since the first cell began."""
        return time.monotonic() - self._began if self._began else 0.0

    def estimate(self, cells: Iterable[PlannedCell]) -> str:
        """Return how much there is to do in *cells*, and about how long it takes."""
        cells = list(cells)
        runs: dict[str, int] = {}
        for cell in cells:
            runs[cell.strategy] = runs.get(cell.strategy, 0) + cell.runs
        count, keys = sum(runs.values()), len({cell.key for cell in cells})
        much = f"about {count} run{'s' * (count != 1)} in {keys} cell{'s' * (keys != 1)}"
        left = self._pace.left(runs, processes(self._config))
        return f"chaos: {much}, {f'about {spoken(left)}' if left is not None else 'how long is not known yet'}"

    def announce(self, cells: Iterable[PlannedCell]) -> None:
        """Say the estimate of *cells*, once."""
        if not self._told and self._screen and (cells := list(cells)):
            self._told = True
            self._screen.say(self.estimate(cells))

    def close(self) -> None:
        """Stop, and leave no trace on the terminal; may be called twice."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._screen:
            self._screen.close()

    def _go(self) -> None:
        assert self._screen is not None
        while not self._ended.wait(REWRITE if self._screen.in_place else min(1.0, HEARTBEAT)):
            try:
                self._step(self._screen)
            except (msgspec.MsgspecError, OSError):
                continue  # a folder that somebody clears meanwhile must not end a campaign

    def _step(self, screen: Screen) -> None:
        now = time.monotonic()
        self._tally.update(self._pace)
        self.announce(self._tally.planned)
        running = list(self._running.items())
        if not running or self._paused:
            return
        if screen.in_place:
            if any(now - began >= LONG for _, began in running):
                screen.draw(self._line(running))
        elif now - screen.quiet_since >= HEARTBEAT:
            screen.say(f"chaos: still running: {self._line(running)}")

    def _line(self, running: list[tuple[str, float]]) -> str:
        told = [self._tally.told(nodeid) for nodeid, _ in running]
        more = [f"{len(told) - SHOWN} more"] if len(told) > SHOWN else []
        left = self._pace.left(self._tally.remaining(), processes(self._config), self.seconds)
        rest = f"about {spoken(left)} left" if left is not None else "how long still is not known yet"
        return " | ".join([*told[:SHOWN], *more, f"{self._tally.cells}, {spoken(self.seconds)}, {rest}"])


def processes(config: pytest.Config) -> int:
    """Return how many processes run cells at the same time."""
    workers = getattr(config.option, "tx", None) or ()  # as pytest-xdist has it
    return max(len(workers), 1)


def spoken(seconds: float) -> str:
    """Return a duration as people say it: "50 s", "6 min", "1 h 20 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _entries(settings: Settings) -> tuple[Any, ...]:
    try:
        return history.read(Path(settings.history)) if settings.history else ()
    except HarnessError:
        return ()  # whoever needs it says so
