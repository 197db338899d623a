"""Two workers on one thread: one was taken for dead and is not, and the next one works beside it.

The supervisor believes in the newest. The others stand where they were taken for dead, stopped with all their threads
and processes as if cut off from everything, until they wake up. From then on at most one of all moves at a time: each
goes to its next point while the others are held at theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from chaos import leftovers, ports
from chaos.events.done import HeartbeatMissed, Overlapped, Signalled
from chaos.faults import KILL_SECONDS, next_host
from chaos.gate import Gate, Held
from chaos.journal import Journal
from chaos.sandbox.tree import alive, state
from chaos.worker import Worker

if TYPE_CHECKING:
    from chaos.faults import Disk, Wakes
    from chaos.sandbox import Backend, Sandbox
    from chaos.world.server import World

TURN_SECONDS = 1.0
"""A worker that comes to no point for so long may be waiting for one that is held (for a lock): the next one moves."""

POLL_SECONDS = 0.02
EXIT_SECONDS = 0.05  # as in the supervisor: a connection closed, most likely the agent ends


def beside(
    first: Worker, disk: Disk, backend: Backend, memory_bytes: int, root: Path, world: World, stack: ExitStack
) -> Worker:
    """Return a worker beside *first*, with ports of its own, on the same durable zone and on a *disk* as demanded.

    A disk of its own is another node: empty, and with another hostname.

    Args:
        root: folder for that disk; made here.
        stack: gets what undoes all of it.
    """
    own = disk == "own"
    old = first.sandbox
    hostname = next_host(old.hostname) if own else old.hostname
    sandbox = backend.beside(old, root if own else None, memory_bytes, hostname)
    stack.callback(leftovers.surely, sandbox.close)
    stack.callback(leftovers.surely, partial(_end, old))  # on a shared disk it must not write while that is removed
    gate = Gate()
    stack.callback(gate.close)
    taken = stack.enter_context(ports.claimed(tuple(name for name, _ in first.watch.ports)))
    return Worker(sandbox, gate, world.open_door(), replace(first.watch, ports=taken))


def _end(sandbox: Sandbox) -> None:
    sandbox.kill()
    sandbox.wait(KILL_SECONDS)


@dataclass
class _Presumed:
    """A worker that was taken for dead; *held* is where it stands, None while it moves."""

    worker: Worker
    held: Held | None
    wakes: Wakes
    awake: bool = False

    def wake(self) -> None:
        """Let it go on from now on."""
        if not self.awake:
            self.awake = True
            self.worker.sandbox.resume()


class Presumed:
    """The workers that were taken for dead and live on.

    Args:
        heartbeat_seconds: without a sign of life for so long, one that may move is ended.
        deadline: instant of `time.monotonic` at which all are ended.
        exited: journals the end of a worker.
    """

    def __init__(
        self, journal: Journal, heartbeat_seconds: float, deadline: float, exited: Callable[[Worker, int], None]
    ) -> None:
        self._journal, self._heartbeat, self._deadline = journal, heartbeat_seconds, deadline
        self._exited = exited
        self._all: list[_Presumed] = []
        self._seen: set[tuple[int, int]] = set()

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, worker: Worker, held: Held, wakes: Wakes) -> None:
        """Stop *worker* where it stands; what it does from now on is journalled under its own number."""
        worker.door.attempt = worker.attempt
        worker.sandbox.stop()
        self._all.append(_Presumed(worker, held, wakes))

    def beside(self, current: Worker, phase: str) -> None:
        """*current* stands at *phase*: let each of the others that is awake go to its next point."""
        for other in list(self._all):
            self._prove(other.worker, current)
            if phase == "after_load" and other.wakes == "resumed":
                other.wake()
            if other.awake:
                self._move(other, TURN_SECONDS if other.held else 0.0)

    def stir(self) -> None:
        """Let those that are awake go on for a moment: the current worker is silent, it may be waiting for them."""
        for other in list(self._all):
            if other.wakes == "resumed":
                other.wake()
            if other.awake:
                self._move(other, POLL_SECONDS)

    def see_out(self) -> None:
        """Let all of them come to their end, one after the other; at the deadline end them."""
        for other in list(self._all):
            other.wake()
            while other in self._all and time.monotonic() < self._deadline:
                self._move(other, POLL_SECONDS)
            if other in self._all:
                self._kill(other)

    def end(self) -> None:
        """End all of them."""
        for other in list(self._all):
            self._kill(other)

    def _prove(self, first: Worker, second: Worker) -> None:
        """Journal once for each two that both are alive: seen in /proc, not believed."""
        pids = first.sandbox.pid, second.sandbox.pid
        if pids in self._seen or not (alive(pids[0]) and alive(pids[1])):
            return
        self._seen.add(pids)
        states = state(pids[0]), state(pids[1])
        self._journal.add(Overlapped, first=pids[0], second=pids[1], states=states)

    def _move(self, other: _Presumed, patience: float) -> None:
        """Let it go from where it stands to its next point, or to its end; stop looking after *patience* seconds."""
        worker, end = other.worker, min(time.monotonic() + patience, self._deadline)
        if other.held is not None:
            worker.go(other.held)
            other.held = None
        while True:
            left = max(0.0, end - time.monotonic())
            if held := worker.gate.next(min(left, POLL_SECONDS)):
                worker.note(held, self._journal)
                other.held = held
                return
            status = worker.sandbox.wait(EXIT_SECONDS if worker.gate.hung_up else 0.0)
            if status is not None:
                self._over(other, status)
                return
            if worker.silent() > self._heartbeat:
                with self._journal.acting(worker.attempt):
                    self._journal.add(HeartbeatMissed, pid=worker.sandbox.pid, seconds=self._heartbeat)
                self._kill(other)
                return
            if left <= 0:
                return

    def _kill(self, other: _Presumed) -> None:
        sandbox = other.worker.sandbox
        with self._journal.acting(other.worker.attempt):
            self._journal.add(Signalled, pid=sandbox.pid, signal=9)
        sandbox.kill()
        status = sandbox.wait(KILL_SECONDS)
        self._over(other, -9 if status is None else status)

    def _over(self, other: _Presumed, status: int) -> None:
        self._all.remove(other)
        other.worker.gate.drop()
        self._exited(other.worker, status)
