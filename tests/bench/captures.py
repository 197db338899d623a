"""What captures of a run cost: `python -m tests.bench.captures`.

An agent keeps its state in SQLite as LangGraph does, writes files, and is captured five times at each step while it
stands still. Then each state that is not as the one before is put back, and a process works there that is killed.
"""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

from chaos.capture.quiet import mapped
from chaos.capture.shelf import Capture, Shelf

FILES = 150
PHASES = 5
EDGE = 100  # calls at the beginning, and at the end of a run, that are compared
KB = 1000
Result = TypeVar("Result")
CASES = ((200, 1, True), (200, 10, True), (100, 1, False), (400, 1, False), (1600, 1, False), (1600, 10, False))


class Figures(NamedTuple):
    """Of one run. Times are of the processor, for the machine may be shared: milliseconds, means over `EDGE` calls."""

    steps: int
    kb_per_step: int
    snapshots: str  # "full": all of the state at each step; "delta": what is new
    takes_s: float  # all of them together, by the clock on the wall
    takes_cpu_s: float
    take_first: float  # of those where something has changed
    take_last: float
    take_unchanged: float  # where nothing has changed
    states: int
    puts_s: float
    puts_cpu_s: float
    put_first: float
    put_last: float
    stored_mb: float  # by the agent, at the end
    kept_mb: float  # by us, of all captures
    memory_mb: float  # the process has grown by so much


class Calls:
    """What calls took, in seconds: on the wall and of the processor."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def time(self, call: Callable[[], Result]) -> Result:
        began, used = time.perf_counter(), time.process_time()
        result = call()
        self.wall.append(time.perf_counter() - began)
        self.cpu.append(time.process_time() - used)
        return result

    def ms(self, which: slice) -> float:
        return statistics.mean(self.cpu[which]) * 1e3


class Agent:
    """A process that works when it is told to, and then stands still."""

    def __init__(self, work: Callable[[int], None]) -> None:
        orders, ours = os.pipe(), os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(orders[1])
            while word := os.read(orders[0], 8):
                work(int.from_bytes(word, "little"))
                os.write(ours[1], b"!")
            os._exit(0)
        os.close(orders[0])
        os.close(ours[1])
        self._tell, self._told = orders[1], ours[0]

    def step(self, number: int) -> None:
        os.write(self._tell, number.to_bytes(8, "little"))
        if os.read(self._told, 1) != b"!":
            raise RuntimeError(f"the agent died in step {number}")

    def kill(self) -> None:
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.close(self._tell)
        os.close(self._told)


def worker(zones: dict[str, Path], kb: int, full: bool) -> Callable[[int], None]:
    """Return what works on the zones: at an even number it stores a step, at an odd one it changes files."""
    open_now: list[sqlite3.Connection] = []

    def work(number: int) -> None:
        step, files = divmod(number, 2)
        if files:
            (zones["workspace"] / f"{step % FILES}.txt").write_text(f"{step}\n" * 20)
            return
        if not open_now:
            open_now.append(sqlite3.connect(zones["durable"] / "state.sqlite", isolation_level=None))
            open_now[0].execute("pragma journal_mode=wal")
            open_now[0].execute("create table if not exists checkpoints (step integer primary key, state blob)")
        state = Random(step).randbytes(kb * KB * (step + 1 if full else 1))
        open_now[0].execute("insert or replace into checkpoints values (?, ?)", (step, state))

    return work


def bench(steps: int, kb: int, full: bool) -> Figures:
    """Record a run, and put all of its states back."""
    with tempfile.TemporaryDirectory() as name:
        zones = {zone: Path(name) / "zones" / zone for zone in ("durable", "workspace", "tmp")}
        for folder in (*zones.values(), Path(name) / "kept"):
            folder.mkdir(parents=True)
        for file in range(FILES):
            (zones["workspace"] / f"{file}.txt").write_text("nothing yet\n" * 20)
        shelf = Shelf(zones, Path(name) / "kept")
        before = _memory_mb()
        takes, still, puts = Calls(), Calls(), Calls()
        captures = _record(shelf, Agent(worker(zones, kb, full)), steps, takes, still)
        stored = sum(path.stat().st_size for path in Path(name).glob("zones/*/*"))
        grown = _memory_mb() - before
        _return(shelf, captures, worker(zones, kb, full), puts)
        figures = Figures(
            steps, kb, "full" if full else "delta",
            sum(takes.wall + still.wall), sum(takes.cpu + still.cpu),
            takes.ms(slice(EDGE)), takes.ms(slice(-EDGE, None)), still.ms(slice(None)),
            len(puts.cpu), sum(puts.wall), sum(puts.cpu), puts.ms(slice(EDGE)), puts.ms(slice(-EDGE, None)),
            stored / 1e6, shelf.kept_bytes / 1e6, grown,
        )  # fmt: skip
        shelf.close()
    return figures


def _record(shelf: Shelf, agent: Agent, steps: int, takes: Calls, still: Calls) -> list[Capture]:
    captures: list[Capture] = []
    try:
        for step in range(steps):
            for phase in range(PHASES):
                if phase in (1, 3):
                    agent.step(2 * step + phase // 3)
                maps = mapped([agent.pid], shelf.root)
                calls = takes if phase in (1, 3) else still
                captures.append(calls.time(partial(shelf.take, maps)))
    finally:
        agent.kill()
    return captures


def _return(shelf: Shelf, captures: Sequence[Capture], work: Callable[[int], None], puts: Calls) -> None:
    last = None
    for number, capture in enumerate(captures):
        if capture.digests == last:
            continue
        last = capture.digests
        puts.time(partial(shelf.put_back, capture))
        agent = Agent(work)
        agent.step(2 * (number // PHASES))
        agent.step(2 * (number // PHASES) + 1)
        agent.kill()


def _memory_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


if __name__ == "__main__":
    chosen = [case for case in CASES if len(sys.argv) < 2 or str(case[0]) in sys.argv[1:]]
    for case in chosen:
        print(json.dumps({name: round(value, 2) if isinstance(value, float) else value
                          for name, value in bench(*case)._asdict().items()}), flush=True)  # fmt: skip
