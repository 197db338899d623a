"""`pytest-chaos storage-tax`: run each strategy once for its numbers, and print them beside what others say.

Every strategy gets a process and one core of its own, which the agent, its servers and the harness share, so that no
row depends on what else is measured at the time.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import FrameType

import msgspec

from chaos import results, tax
from chaos.campaign import Cell, Runner
from chaos.errors import ScenarioError, did_you_mean
from chaos.plugins.cells import chosen, words
from chaos.plugins.machine import campaign_info, campaign_name
from chaos.plugins.settings import SUFFIX, servers_of
from chaos.published import Model, model
from chaos.reports import growth_text, html, text
from chaos.scenario.loader import load
from chaos.tax import Measured, Tax

SCENARIO = "storage_tax"
ROOM = 1.3  # what a strategy needs on the disk, by its model: WAL, catalogs, a copy of the last state
STOP_SECONDS = 60.0  # an interrupted run stops its servers and removes its folders
INTERRUPTED = 130  # as shells report SIGINT

_fork = get_context("fork")


@dataclass
class _Job:
    """A strategy that is being measured, in a process on one core."""

    number: int
    slot: int
    process: ForkProcess
    answer: Connection


@dataclass
class _Measuring:
    """All strategies of one call of the command, and what has been found so far."""

    cells: Sequence[Cell]
    folder: Path
    seed: int
    addresses: Mapping[str, str]
    found: dict[int, Measured] = field(default_factory=dict)

    def run(self, jobs: int) -> None:
        """Measure all cells, *jobs* at a time; an interrupt ends them and is raised when nothing is left."""
        cores = sorted(os.sched_getaffinity(0))[: max(1, jobs)]
        waiting = sorted(range(len(self.cells)), key=lambda number: -_weight(self.cells[number]))
        running: list[_Job] = []
        try:
            while waiting or running:
                taken = {job.slot for job in running}
                for slot in (slot for slot in range(len(cores)) if slot not in taken and waiting):
                    # One core takes the heaviest first, the others the lightest: heavy writers share one disk.
                    running.append(self._start(waiting.pop(0 if slot == 0 else -1), slot, cores[slot]))
                ended = wait([job.process.sentinel for job in running])
                for job in [job for job in running if job.process.sentinel in ended]:
                    running.remove(job)
                    self._take(job)
        finally:
            for job in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(job.process.pid or 0, signal.SIGINT)
            for job in running:
                job.process.join(STOP_SECONDS)

    def _start(self, number: int, slot: int, core: int) -> _Job:
        answer, theirs = _fork.Pipe(duplex=False)
        process = _fork.Process(target=self._measure, args=(number, core, theirs))
        process.start()
        theirs.close()
        return _Job(number, slot, process, answer)

    def _take(self, job: _Job) -> None:
        job.process.join()
        label = self.cells[job.number].strategy.label
        try:
            measured: Measured = job.answer.recv()
        except EOFError:
            measured = Measured(strategy=label, wrong=(f"its process ended with {job.process.exitcode}",))
        self.found[job.number] = measured
        print(f"[{len(self.found)}/{len(self.cells)}] {_told(measured)}", flush=True)

    def _measure(self, number: int, core: int, answer: Connection) -> None:
        """Measure one cell; this is a process of its own."""
        signal.signal(signal.SIGINT, _once)
        os.sched_setaffinity(0, {core})
        cell = self.cells[number]
        runner = Runner(self.folder, "", self.seed, addresses=self.addresses)
        folder = self.folder / results.JOURNALS / cell.strategy.label
        try:
            answer.send(_no_room(cell) or tax.measured(runner, cell, folder))
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except Exception as error:  # a bug of ours must cost its own row only
            traceback.print_exc()
            answer.send(Measured(strategy=cell.strategy.label, wrong=(f"{type(error).__name__}: {error}",)))
        finally:
            runner.close()


def _once(number: int, frame: FrameType | None) -> None:
    """Take the first interrupt: a terminal sends one to all processes, and the command another one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _ended(number: int, frame: FrameType | None) -> None:
    """Take the request to end as an interrupt."""
    raise KeyboardInterrupt


def _model(cell: Cell) -> Model | None:
    """Return what arithmetic says of *cell* at its end."""
    steps = cell.scenario.target.steps
    return model(cell.strategy.name, tax.options_of(cell), tax.bytes_per_step(cell), steps, steps)


def _weight(cell: Cell) -> int:
    """Return about how many bytes *cell* writes."""
    said = _model(cell)
    return said.written if said else 0


def _no_room(cell: Cell) -> Measured | None:
    said = _model(cell)
    needed, folder = int(ROOM * said.stored) if said else 0, tempfile.gettempdir()
    if (free := shutil.disk_usage(folder).free) >= needed:
        return None
    why = f"needs about {text.size(needed)} in {folder}, which has {text.size(free)} free; set TMPDIR to another disk"
    return Measured(strategy=cell.strategy.label, skipped=why)


def _told(found: Measured) -> str:
    """Return one line on what was found."""
    if found.skipped:
        return f"{found.strategy}: skipped: {found.skipped}"
    if found.wrong:
        return f"{found.strategy}: {'; '.join(found.wrong)}"
    last = found.rows[-1] if found.rows else None
    told = f"{text.size(last.stored_bytes)} stored at N = {last.n}, " if last else ""
    return f"{found.strategy}: {told}{text.seconds(found.seconds)}"


def run(options: argparse.Namespace) -> int:
    """Measure, write `storage_tax.json` and the report, print the table; return 1 if anything proves nothing."""
    cells = _cells(options)
    folder: Path = options.out
    addresses = dict(servers_of("--servers", options.servers or os.environ.get("CHAOS_SERVERS", "")))
    words = ["pytest-chaos", "storage-tax", *map(str, options.scenarios), "--out", str(folder)]
    info = msgspec.structs.replace(campaign_info(campaign_name(), options.seed, (), 0), command=shlex.join(words))
    results.write_info(folder, info)
    (folder / tax.FILE).unlink(missing_ok=True)
    signal.signal(signal.SIGTERM, _ended)  # not by way of SIGINT, which a background job may have to ignore
    measuring = _Measuring(cells, folder, options.seed, addresses)
    began = time.monotonic()
    try:
        measuring.run(options.jobs)
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        return INTERRUPTED
    found = [(cell, measuring.found[number]) for number, cell in enumerate(cells)]
    whole = tax.assembled(
        found,
        seed=options.seed,
        began=info.began,
        seconds=round(time.monotonic() - began, 1),
        versions=info.versions,
        machine={**info.machine, "cores": str(options.jobs), "temporary files": tempfile.gettempdir()},
    )
    return _shown(whole, folder)


def _shown(whole: Tax, folder: Path) -> int:
    path = tax.write(folder, whole)
    with contextlib.suppress(OSError):  # journals of runs that prove nothing are kept
        (folder / results.JOURNALS).rmdir()
    report = folder / "report.html"
    html.write(results.read(folder), folder, report)
    for line in growth_text.lines(whole):
        print(line)
    print(f"\n{path}\n{report}")
    return 1 if whole.problems or not whole.rows else 0


def _cells(options: argparse.Namespace) -> list[Cell]:
    """Return the cells to measure: every strategy of every scenario, under its scenario's first fault."""
    import chaos

    shipped = sorted(Path(chaos.__file__).parent.joinpath("scenarios").glob(f"{SCENARIO}*{SUFFIX}"))
    scenarios = [load(path, default_seed=options.seed) for path in options.scenarios or shipped]
    cells = [Cell(scenario, strategy, scenario.faults[0]) for scenario in scenarios for strategy in scenario.strategies]
    known = {cell.strategy.label: cell.strategy.name for cell in cells}
    for word in words(options.strategy, {*known, *known.values()}):
        if word not in {*known, *known.values()}:
            raise ScenarioError(f"--strategy: no strategy {word!r}; {did_you_mean(word, {*known, *known.values()})}")
    return [cell for cell in cells if cell.strategy.label in chosen(options.strategy, known)]
