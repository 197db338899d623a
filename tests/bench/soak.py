"""Random plans over all faults, for hours if need be: nothing may stay behind, and no error may be the harness's.

    python -m tests.bench.soak 1000 --seed 1 --jobs 2
    python -m tests.bench.soak 1 --seed 1 --first 417        one plan again, as printed with what it left or raised

What the agents make of it is counted and is no failure. Exit codes: 0 nothing was left and nothing went wrong; 1
something did, or a plan could not be drawn; 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import NamedTuple

import msgspec

from chaos import leftovers, registry, results, seeds
from chaos.campaign import Runner
from chaos.results import RunResult
from chaos.sandbox import warm
from chaos.verdict import CellVerdict, Outcome
from tests.bench import draws, remains
from tests.bench.draws import Drawn

PROGRESS = 25  # plans from one line on the terminal to the next
STOP_SECONDS = 60.0  # an interrupted run stops its servers and removes its folders
INTERRUPTED = 130  # as shells report SIGINT

_fork = get_context("fork")


class Ran(NamedTuple):
    """What one plan came to; *verdict* is empty if none could be drawn."""

    number: int
    verdict: str
    planned: tuple[str, ...]  # kinds of faults
    landed: int
    seconds: float
    left_out: tuple[str, ...] = ()  # why other draws did not suit
    error: str = ""
    left: tuple[str, ...] = ()
    what: str = ""
    doubt: str = ""  # why it was not judged, where that is the verdict


class Options(NamedTuple):
    plans: int
    seed: int
    first: int
    jobs: int
    strategies: tuple[str, ...]
    faults: tuple[str, ...]
    backend: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the plans, say what came of them, and return the exit code."""
    options = _options(arguments)
    before = remains.namespaces()
    began = time.monotonic()
    try:
        ran, dead = _run(options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    left = [line for pid in dead for line in remains.of_a_harness(pid)]
    return report(options, ran, [*left, *remains.orphans(before)], time.monotonic() - began)


def _options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.soak", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("plans", type=int, nargs="?", default=1000, help="how many; default: 1000")
    parser.add_argument("--seed", type=int, default=seeds.fresh(), help="default: a new one, printed")
    parser.add_argument("--first", type=int, default=0, help="number of the first plan; default: 0")
    parser.add_argument("--jobs", type=int, default=2, help="plans at a time; default: 2")
    parser.add_argument("--strategies", default="", help="only these, by name")
    parser.add_argument("--faults", default="", help="only these, by name")
    parser.add_argument("--backend", default="auto", help="as --chaos-backend of pytest")
    given = parser.parse_args(arguments)
    strategies, faults = (_names(kind, getattr(given, kind)) for kind in ("strategies", "faults"))
    return Options(given.plans, given.seed, given.first, max(1, given.jobs), strategies, faults, given.backend)


def _names(kind: str, text: str) -> tuple[str, ...]:
    names = tuple(text.replace(",", " ").split()) or tuple(registry.names(kind))
    for name in names:
        registry.load(kind, name)
    return names


def _run(options: Options) -> tuple[list[Ran], list[int]]:
    """Return what the plans came to, in order, and the process ids of the harnesses that ran them, which are gone."""
    ran: list[Ran] = []
    processes, pipes = [], {}
    try:
        for slot in range(options.jobs):
            ours, theirs = _fork.Pipe(duplex=False)
            numbers = range(options.first + slot, options.first + options.plans, options.jobs)
            process = _fork.Process(target=_work, args=(options, numbers, theirs))
            process.start()
            theirs.close()
            processes.append(process)
            pipes[ours] = numbers
        while pipes:
            for ready in wait(list(pipes)):
                assert isinstance(ready, Connection)
                try:
                    ran.append(ready.recv())
                    if len(ran) % PROGRESS == 0:
                        print(f"{len(ran)} of {options.plans} plans", file=sys.stderr, flush=True)
                except EOFError:
                    missing = sorted(set(pipes.pop(ready)) - {one.number for one in ran})
                    if missing:
                        ran.append(Ran(missing[0], "died", (), 0, 0.0, error="the harness's process died"))
    finally:
        for process in processes:
            if process.is_alive() and sys.exc_info()[0] is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid or 0, signal.SIGINT)
            process.join(STOP_SECONDS)
    return sorted(ran), [process.pid or 0 for process in processes]


def _work(options: Options, numbers: Sequence[int], answer: Connection) -> None:
    """Run some of the plans; this is a harness of its own, with its own servers."""
    signal.signal(signal.SIGINT, _once)
    folder = leftovers.folder("soak-")
    runner = Runner(folder, "soak", options.seed, backend=options.backend)
    try:
        for number in numbers:
            ran = one(runner, options, number)
            left = remains.of_a_run(os.getpid())
            answer.send(ran._replace(left=tuple(left)))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        runner.close()
        warm.close_all()
        leftovers.remove(folder)


def _once(number: int, frame: FrameType | None) -> None:
    """Take the first interrupt: a terminal sends one to all processes, and the command another one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def one(runner: Runner, options: Options, number: int) -> Ran:
    """Draw the plan *number* until it suits this machine, and run it."""
    left_out = []
    for attempt in range(draws.TRIES):
        drawn = draws.draw(options.seed, number, attempt, options.strategies, options.faults)
        if why := runner.unsuited(drawn.cell) or runner.lacking(drawn.cell):
            left_out.append(why)
            continue
        began = time.monotonic()
        kinds = tuple(spec.kind for spec in drawn.faults)
        verdict, landed, error, doubt = _ran(runner, drawn)
        seconds = time.monotonic() - began
        return Ran(number, verdict, kinds, landed, seconds, tuple(left_out), error, what=str(drawn), doubt=doubt)
    return Ran(number, "", (), 0, 0.0, tuple(left_out), error="no plan that suits this machine was drawn")


def _ran(runner: Runner, drawn: Drawn) -> tuple[str, int, str, str]:
    """Return the verdict of the plan, how many of its faults landed, the harness's error, and why it is not judged."""
    runner.case = drawn.case
    shutil.rmtree(runner.folder / "runs" / "soak", ignore_errors=True)  # the last journal
    (runner.folder / results.RUNS).unlink(missing_ok=True)
    try:
        cell = runner.run_cell(drawn.cell)
    except Exception:
        return "raised", 0, traceback.format_exc(), ""
    if cell.verdict is CellVerdict.HARNESS_ERROR and not cell.runs:
        return str(cell.verdict), 0, cell.why, ""
    file = runner.folder / results.RUNS
    lines = file.read_bytes().splitlines() if file.exists() else []
    if not lines:  # the reference was no measure, or no point was there
        return str(cell.verdict), 0, "", cell.why if cell.verdict is CellVerdict.UNKNOWN else ""
    run = msgspec.json.decode(lines[-1], type=RunResult)
    open_ = [f"{name}: {check.finding}" for name, check in run.checks.items() if check.outcome is Outcome.UNKNOWN]
    doubt = "; ".join(open_) if run.verdict is CellVerdict.UNKNOWN else ""
    return str(run.verdict), len(run.landed), run.error, doubt


def report(options: Options, ran: Sequence[Ran], left: Sequence[str], seconds: float) -> int:
    """Print what came of the plans and return the exit code."""
    bad = [one for one in ran if one.error or one.left]
    for each in bad:
        print(f"\n{each.what or f'plan {each.number}'}\n  again: {again(options, each.number)}")
        for line in (*each.error.strip().splitlines()[-12:], *(f"left behind: {line}" for line in each.left)):
            print(f"  {line}")
    for line in left:
        print(f"left behind in the end: {line}")
    for each in ran:
        if each.doubt:
            print(f"not judged: {each.what}\n  again: {again(options, each.number)}\n  {each.doubt}")
    verdicts = Counter(one.verdict for one in ran)
    planned, hit = sum(len(one.planned) for one in ran), sum(one.landed for one in ran)
    kinds = Counter(kind for one in ran for kind in one.planned)
    print(f"\nseed {options.seed}: {len(ran)} plans in {seconds:.0f} s ({len(ran) / max(seconds, 0.001):.2f} a second)")
    drawn = ", ".join(f"{name} {count}" for name, count in sorted(kinds.items()))
    print(f"{planned} faults planned ({drawn}), {hit} landed")
    print(", ".join(f"{count} {name or 'not drawn'}" for name, count in verdicts.most_common()))
    missing = sorted(set(options.faults) - set(kinds))
    reasons = Counter(why for one in ran for why in one.left_out)
    for why, count in reasons.most_common():
        print(f"drawn anew {count} times: {why}")
    if missing:
        print(f"never drawn: {', '.join(missing)}")
    stayed = sum(len(one.left) for one in ran) + len(left)
    print(f"harness errors: {sum(bool(one.error) for one in ran)}; left behind: {stayed}")
    return 1 if bad or left or len(ran) < options.plans else 0


def again(options: Options, number: int) -> str:
    """Return the command that runs just the plan *number* again."""
    words = [
        "python",
        "-m",
        "tests.bench.soak",
        "1",
        "--seed",
        str(options.seed),
        "--first",
        str(number),
        "--jobs",
        "1",
    ]
    for kind in ("strategies", "faults"):
        names = getattr(options, kind)
        if set(names) != set(registry.names(kind)):
            words += [f"--{kind}", ",".join(names)]
    return shlex.join(words)


if __name__ == "__main__":
    sys.exit(main())
