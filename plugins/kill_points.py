"""`pytest-chaos kill-points`: what a crash costs at each point around an effect, on each durable runtime.

Every kill point is hit twice, for real and against a crash-free run: at an e-mail, whose service knows no idempotency
key, and at a payment, which is sent with one. No number here is known beforehand.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType

import msgspec

from chaos import journal, leftovers, results
from chaos.campaign import Cell, Runner
from chaos.checks import Terms
from chaos.errors import ScenarioError, did_you_mean
from chaos.explorers.fixed import Fixed
from chaos.faults.false_dead import FalseDead
from chaos.faults.kill import Kill
from chaos.plan import parse_case
from chaos.plugins.settings import servers_of
from chaos.record import Record
from chaos.results import RunResult
from chaos.scenario import FaultSpec, Limits, Scenario, StrategySpec
from chaos.targets.reference import Reference
from chaos.verdict import CellVerdict

TARGET = Reference(steps=16)  # the shortest script with a payment; an e-mail follows it
EFFECTS = {"e-mail": 13, "payment": 12}
"""The steps that have the effects. By then even a store that lags behind has something to lose."""

RUNTIMES: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "LangGraph sync": ("full_snapshot", {"durability": "sync"}),
    "LangGraph async": ("full_snapshot", {"durability": "async"}),
    "LangGraph exit": ("full_snapshot", {"durability": "exit"}),
    "LangGraph delta": ("delta", {"durability": "sync"}),
    "DBOS": ("events", {"runtime": "dbos"}),
    "Temporal": ("events", {"runtime": "temporal"}),
}
ROWS: Mapping[str, str] = {
    "before dispatch": "kill@{step}/before_act",
    "after the effect": "kill@{step}/after_act",
    "inside the commit": "kill@{step}/during_commit",
    "after the writes": "kill@{step}/after_commit",
    "in recovery": "kill@{step}/after_act+kill@recovery/after_load",
    "two resumers: in turn": "resumed@{step}/before_act",
    "two resumers: late": "finished@{step}/before_act",
}
"""Kill point to plan. Two resumers: the first is taken for dead before it acts, and goes on when the second has resumed
the thread, or when the second has finished."""

NOWHERE = {("LangGraph exit", "inside the commit"), ("LangGraph exit", "after the writes")}
"""Points that a runtime does not come to: with the durability `exit` there is one commit, at the end."""

CHECKS = ("state", "effects", "budget", "finishes", "recovery")  # what a store can promise: files are not in it
COSTS = {"effects", "recovery"}  # what the numbers tell; anything else that breaks is a wrong result
WEIGHTS = {"Temporal": 5, "DBOS": 2}  # how long they take, against LangGraph
FAULTS = (
    FaultSpec("kill", "kill", Kill(), Fixed()),
    FaultSpec("resumed", "false_dead", FalseDead(wakes="resumed"), Fixed()),
    FaultSpec("finished", "false_dead", FalseDead(wakes="finished"), Fixed()),
)
DEADLINE_SECONDS = 20.0  # a run takes a second or two; with two workers on Temporal up to five
STOP_SECONDS = 60.0  # an interrupted run stops its servers and removes its folders
INTERRUPTED = 130  # as shells report SIGINT
ENDS = ("finished", "refused", "diverged", "stuck", "–", "nothing proved")  # the worse the later
LEGEND = "Effects done twice, without + with an idempotency key; steps done again; the end, unless it is the right one."

_fork = get_context("fork")


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """What one run gave: effects beyond the first of their kind, and those that the service recognised by their key."""

    runtime: str
    row: str
    effect: str
    plan: str
    without_key: int = 0
    with_key: int = 0
    recognised: int = 0
    redone_steps: int = 0
    end: str
    seconds: float = 0.0
    findings: tuple[str, ...] = ()


class Skipped(msgspec.Struct, frozen=True):
    """A runtime that this machine cannot run."""

    runtime: str
    why: str


def run(options: argparse.Namespace) -> int:
    """Make all runs, print the table; return 1 if a fault missed where it should have hit, 130 if interrupted."""
    wanted, rows = _chosen("--runtime", options.runtime, RUNTIMES), _chosen("--point", options.point, ROWS)
    addresses = dict(servers_of("--servers", options.servers or os.environ.get("CHAOS_SERVERS", "")))
    try:
        found = _measured(wanted, rows, options.seed, addresses, max(1, options.jobs))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    figures = [one for one in found if isinstance(one, Figure)]
    if options.json:
        whole = {"seed": options.seed, "figures": found, "legend": LEGEND}
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(whole), indent=1) + b"\n")
    for line in lines(wanted, rows, found):
        print(line)
    return 1 if any(one.end == ENDS[-1] for one in figures) or not figures else 0


def _chosen(option: str, names: str, known: Mapping[str, object]) -> list[str]:
    """Return the names in *names*, all that are *known* if there is none; ScenarioError for one that is not."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            raise ScenarioError(f"{option}: there is no {name!r}; {did_you_mean(name, list(known))}")
    return [name for name in known if name in wanted or not wanted]


def _measured(
    wanted: Sequence[str], rows: Sequence[str], seed: int, addresses: Mapping[str, str], jobs: int
) -> list[Figure | Skipped]:
    """Measure the runtimes in *jobs* processes; an interrupt ends them and is raised when nothing is left."""
    found: list[Figure | Skipped] = []
    shares = _shares(wanted, jobs)
    processes = []
    try:
        pipes = []
        for share in shares:
            ours, theirs = _fork.Pipe(duplex=False)
            process = _fork.Process(target=_work, args=(share, rows, seed, addresses, theirs))
            process.start()
            theirs.close()
            processes.append(process)
            pipes.append(ours)
        while pipes:
            for ready in [pipe for pipe in wait(pipes) if isinstance(pipe, Connection)]:
                try:
                    found += ready.recv()
                except EOFError:
                    pipes.remove(ready)
    finally:
        for process in processes:
            if process.is_alive() and sys.exc_info()[0] is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid or 0, signal.SIGINT)
            process.join(STOP_SECONDS)
    return sorted(found, key=lambda one: list(RUNTIMES).index(one.runtime))


def _shares(wanted: Sequence[str], jobs: int) -> list[list[str]]:
    """Return the runtimes in *jobs* shares that take about as long."""
    shares: list[list[str]] = [[] for _ in range(jobs)]
    for name in sorted(wanted, key=lambda name: -WEIGHTS.get(name, 1)):
        min(shares, key=lambda share: sum(WEIGHTS.get(one, 1) for one in share)).append(name)
    return [share for share in shares if share]


def _work(
    share: Sequence[str], rows: Sequence[str], seed: int, addresses: Mapping[str, str], answer: Connection
) -> None:
    """Measure some runtimes; this is a process of its own."""
    signal.signal(signal.SIGINT, _once)
    folder = leftovers.folder("kill-points-")
    try:
        for runtime in share:
            runner = Runner(folder / runtime, "kill-points", seed, addresses=addresses)
            try:
                answer.send(list(measured(runner, runtime, rows)))
            finally:
                runner.close()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        leftovers.remove(folder)


def _once(number: int, frame: FrameType | None) -> None:
    """Take the first interrupt: a terminal sends one to all processes, and the command another one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def measured(runner: Runner, runtime: str, rows: Sequence[str]) -> Iterator[Figure | Skipped]:
    """Yield what each kill point of *rows* costs *runtime*, at each of the two effects."""
    name, options = RUNTIMES[runtime]
    strategy = StrategySpec(name, name, TARGET.strategy(name, options))
    scenario = Scenario(
        path=Path("kill-points"), name="kill-points", description="", tags=(), target=TARGET, strategies=(strategy,),
        faults=FAULTS, checks=CHECKS, terms=Terms(), volatile=(), expected=(),
        limits=Limits(deadline_seconds=DEADLINE_SECONDS), runs=1,
    )  # fmt: skip
    for row in rows:
        for effect, step in EFFECTS.items():
            case = parse_case(ROWS[row].format(step=step))
            [fault] = [one for one in FAULTS if one.label == case.plan.faults[0].fault]
            cell = Cell(scenario, strategy, fault)
            if why := runner.lacking(cell) or runner.unsuited(cell):
                yield Skipped(runtime, why)
                return
            runner.case = case
            figure = _figure(runner, cell, runtime, row, effect)
            yield figure
            if figure.end == "stuck":
                break  # it would be at the other effect, and waiting for that takes the longest


def _figure(runner: Runner, cell: Cell, runtime: str, row: str, effect: str) -> Figure:
    file = runner.folder / results.RUNS
    before = len(file.read_bytes().splitlines()) if file.exists() else 0
    judged = runner.run_cell(cell)
    plan = str(runner.case.plan) if runner.case else ""
    lines = file.read_bytes().splitlines()[before:] if file.exists() else []
    if not lines:
        return Figure(runtime=runtime, row=row, effect=effect, plan=plan, end=ENDS[-1], findings=(judged.why,))
    run = msgspec.json.decode(lines[-1], type=RunResult)
    if not run.landed or run.verdict in (CellVerdict.HARNESS_ERROR, CellVerdict.NOT_EXERCISED):
        end = "–" if (runtime, row) in NOWHERE else ENDS[-1]
        why = (run.error, *run.missed)
        return Figure(runtime=runtime, row=row, effect=effect, plan=plan, end=end, findings=tuple(filter(None, why)))
    record = Record(journal.read(runner.folder / run.journal))
    keyless, keyed = duplicates(record)
    return Figure(
        runtime=runtime,
        row=row,
        effect=effect,
        plan=plan,
        without_key=keyless,
        with_key=keyed,
        recognised=sum(one.deduplicated for one in record.effects),
        redone_steps=run.rpo_steps,
        end=_end(run),
        seconds=run.seconds,
        findings=tuple(f"{name}: {run.checks[name].finding}" for name in run.broke),
    )


def duplicates(record: Record) -> tuple[int, int]:
    """Return the effects that were done beyond the first time, without and with an idempotency key."""
    done = Counter((one.identity, one.key is not None) for one in record.effects if not one.deduplicated)
    more = Counter[bool]()
    for (_, has_key), count in done.items():
        more[has_key] += count - 1
    return more[False], more[True]


def _end(run: RunResult) -> str:
    if run.verdict in (CellVerdict.REFUSED, CellVerdict.STUCK):
        return str(run.verdict)
    return "diverged" if set(run.broke) - COSTS else "finished"


def lines(wanted: Sequence[str], rows: Sequence[str], found: Sequence[Figure | Skipped]) -> Iterator[str]:
    """Yield the table: a row for each kill point, a column for each runtime, the reasons for empty columns."""
    skipped = {one.runtime: one.why for one in found if isinstance(one, Skipped)}
    shown = [runtime for runtime in wanted if runtime not in skipped]
    table = [["kill point", *shown]]
    for row in rows:
        cells = ([f for f in found if isinstance(f, Figure) and (f.runtime, f.row) == (r, row)] for r in shown)
        table.append([row, *map(told, cells)])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row_number, cells_ in enumerate(table):
        yield "| " + " | ".join(text.ljust(width) for text, width in zip(cells_, widths, strict=True)) + " |"
        if row_number == 0:
            yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    yield LEGEND
    yield from (f"{runtime}: skipped: {why}" for runtime, why in skipped.items())


def told(figures: Sequence[Figure]) -> str:
    """Return one field of the table: both effects together, the dearer one counts."""
    end = max((one.end for one in figures), key=ENDS.index, default=ENDS[-1])
    if end in ENDS[-2:]:
        return end
    keyless, keyed, redone = (
        max(getattr(one, name) for one in figures) for name in ("without_key", "with_key", "redone_steps")
    )
    return f"{keyless} + {keyed}; {redone}" + ("" if end == "finished" else f"; {end}")
