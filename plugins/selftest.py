"""Agents with one planted bug each, and correct ones, tried on this machine; `pytest-chaos selftest` prints the rows.

A bug is caught if the check that is named for it breaks, with the finding that is right for it, in a run in which all
faults landed. Its correct sibling goes through the same run, and must pass everything; so must the agents of
`targets/planted/correct.py`. Everything is real: processes, sandboxes, faults, and a campaign's own way to a verdict.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from chaos import leftovers
from chaos.campaign import Cell, Runner
from chaos.errors import HarnessError
from chaos.plan import parse_case
from chaos.results import CellResult, RunResult
from chaos.sandbox.process import able
from chaos.scenario.loader import load
from chaos.targets.planted import NONE, bug_names, catch_of, correct, said_of
from chaos.targets.planted.catch import Catch
from chaos.verdict import CellVerdict, Outcome

SEED = 8412  # fixed, so that two self-tests do the same
STOP_SECONDS = 60.0  # an interrupted run removes its folders and mounts
INTERRUPTED = 130  # as shells report SIGINT

_fork = get_context("fork")


class Verdict(StrEnum):
    """What one row came to."""

    CAUGHT = "caught"
    MISSED = "missed"
    PASSES = "passes"
    FALSE_ALARM = "false alarm"
    NOT_TRIED = "not tried"


class Row(NamedTuple):
    """One agent: its bug and the *check* that must catch it, or a correct one, without; *why* it is not as it should.

    *sibling*: what the correct agent came to in the same case.
    """

    name: str
    does: str
    case: str
    check: str
    verdict: Verdict
    why: str = ""
    sibling: str = ""
    sibling_why: str = ""


class Ran(NamedTuple):
    """The cell of one fault, and its runs."""

    cell: CellResult
    runs: tuple[RunResult, ...]


def known() -> list[str]:
    """Return the names of all agents: the planted bugs, and the correct ones."""
    return [*bug_names(), *(one.name for one in correct.CORRECT)]


def tried_in(jobs: int, names: Sequence[str], checks: Sequence[str]) -> list[Row]:
    """Try all agents in *jobs* processes; an interrupt ends them, and is raised when nothing is left of them."""
    workers: dict[Connection, ForkProcess] = {}
    try:
        for _ in range(jobs):
            ours, theirs = _fork.Pipe()
            process = _fork.Process(target=_work, args=(theirs, (ours, *workers), checks))
            process.start()
            theirs.close()
            workers[ours] = process
        return _shared_out(names, workers)
    finally:
        _stop(workers, at_once=sys.exc_info()[0] is not None)


def _shared_out(names: Sequence[str], workers: Mapping[Connection, ForkProcess]) -> list[Row]:
    """Give each of *workers* one of *names* after the other; raise HarnessError if one of them dies."""
    found: list[Row] = []
    waiting = list(names)  # the last ones first: a correct agent has the most runs
    busy = {worker: waiting.pop() for worker in workers}
    for worker, name in busy.items():
        worker.send(name)
    while busy:
        for worker in [worker for worker in wait(list(busy)) if isinstance(worker, Connection)]:
            name = busy.pop(worker)
            try:
                row: Row = worker.recv()
            except EOFError:
                workers[worker].join()
                raise HarnessError(f"the process that tried {name} ended with {workers[worker].exitcode}") from None
            found.append(row)
            print(f"[{len(found)}/{len(names)}] {name}: {row.verdict}", file=sys.stderr, flush=True)
            if waiting:
                busy[worker] = waiting.pop()
                worker.send(busy[worker])
    return found


def _stop(workers: Mapping[Connection, ForkProcess], *, at_once: bool) -> None:
    """End *workers*: each has nothing more to do when its connection is closed."""
    for connection, process in workers.items():
        connection.close()
        if at_once and process.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid or 0, signal.SIGINT)
    for process in workers.values():
        process.join(STOP_SECONDS)


def _work(names: Connection, others: Sequence[Connection], checks: Sequence[str]) -> None:
    """Try every agent whose name comes, and answer with its row; this is a process of its own."""
    signal.signal(signal.SIGINT, _once)
    for other in others:
        other.close()  # a copy of ours would keep it open when the command is gone
    folder = leftovers.folder("selftest-")
    runner = Runner(folder, "selftest", SEED)
    try:
        while True:
            names.send(tried(runner, folder, names.recv(), checks))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except (EOFError, BrokenPipeError):  # there is nothing more to try, or nobody to tell
        pass
    finally:
        leftovers.surely(runner.close)
        leftovers.surely(lambda: leftovers.remove(folder))


def _once(number: int, frame: FrameType | None) -> None:
    """Take the first interrupt: a terminal sends one to all processes, and the command another one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


# One agent


def tried(runner: Runner, folder: Path, name: str, checks: Sequence[str] = ()) -> Row:
    """Return what the agent *name* comes to, judged by *checks* (all if none is named)."""
    if name in bug_names():
        return _bug(runner, folder, name, checks)
    [agent] = [one for one in correct.CORRECT if one.name == name]
    faults = ", ".join(dict.fromkeys(str(fault["kind"]) for fault in agent.faults))
    verdict, why = _accused(runner, folder, agent.scenario(checks))
    return Row(name, agent.does, faults, "", verdict, why)


def _bug(runner: Runner, folder: Path, bug: str, checks: Sequence[str]) -> Row:
    catch = catch_of(bug)
    row = Row(bug, said_of(bug), catch.plan, catch.check, Verdict.NOT_TRIED, sibling=Verdict.NOT_TRIED)
    if catch.needs and (lacks := str(getattr(able(), catch.needs))):
        return row._replace(why=lacks, sibling_why=lacks)
    try:
        [ran] = cells(runner, folder, catch.scenario(bug, checks), catch.plan)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    else:
        if ran.cell.skipped:
            return row._replace(why=ran.cell.skipped, sibling_why=ran.cell.skipped)
        why = missed(catch, ran)
    sibling, sibling_why = _accused(runner, folder, catch.scenario(NONE, checks), catch.plan)
    verdict = Verdict.MISSED if why else Verdict.CAUGHT
    return row._replace(verdict=verdict, why=why, sibling=sibling, sibling_why=sibling_why)


def _accused(runner: Runner, folder: Path, scenario: str, plan: str = "") -> tuple[Verdict, str]:
    """Return whether a correct agent passes every fault of *scenario* that can be tried here, and what it lacks."""
    try:
        every = cells(runner, folder, scenario, plan)
    except Exception as error:  # a bug of ours is no verdict on the agent, and no pass
        return Verdict.FALSE_ALARM, f"{type(error).__name__}: {error}"
    if found := [why for ran in every if not ran.cell.skipped and (why := accused(ran))]:
        return Verdict.FALSE_ALARM, "; ".join(found)
    lacks = [f"{ran.cell.fault}: {ran.cell.skipped}" for ran in every if ran.cell.skipped]
    return Verdict.NOT_TRIED if lacks else Verdict.PASSES, "; ".join(lacks)


def cells(runner: Runner, folder: Path, scenario: str, plan: str = "") -> list[Ran]:
    """Run every cell of the text *scenario*, or the one run *plan* of its fault."""
    path = folder / "one.chaos.yaml"
    path.write_text(scenario, encoding="utf-8")
    loaded = load(path, SEED)
    runner.case = parse_case(plan) if plan else None
    pairs = [Cell(loaded, strategy, fault) for strategy in loaded.strategies for fault in loaded.faults]
    return [Ran(runner.run_cell(cell), runner.ran) for cell in pairs]


def missed(catch: Catch, ran: Ran) -> str:
    """Return why *ran*, the run of an agent with a bug, is no catch of it; "" if it is one."""
    if len(ran.runs) != 1:
        return ran.cell.why or f"{len(ran.runs)} runs instead of one"
    [run] = ran.runs
    said = run.checks.get(catch.check)
    if len(run.landed) < run.planned:
        return f"{len(run.landed)} of {run.planned} faults landed: {run.error or '; '.join(run.missed)}"
    if said is None:
        return f"{catch.check} was not asked"
    if said.outcome is not Outcome.FAIL:
        return f"{catch.check} says {said.outcome.name} {said.finding}".strip()
    if catch.says not in "\n".join((said.finding, *said.details)):
        return f"{catch.check} says something else: {said.finding}"
    return "the cell is green" if ran.cell.passed else ""


def accused(ran: Ran) -> str:
    """Return what is said against the correct agent of *ran*; "" if it passed everything."""
    for run in ran.runs:
        said = [f"{name} {one.outcome.name} {one.finding}" for name, one in run.checks.items() if one.outcome]
        if said or run.verdict is not CellVerdict.RECOVERED or len(run.landed) < run.planned:
            return f"{run.plan}: {run.verdict}: {'; '.join(said) or run.error or '; '.join(run.missed)}"
    return "" if ran.runs and ran.cell.passed else f"{ran.cell.fault}: {ran.cell.why or 'nothing ran'}"
