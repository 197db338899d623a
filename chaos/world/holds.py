"""Operations on the world, each held until the harness lets it go: points of agents that announce nothing.

The thread of the connection stands still, so that only the client that asked waits. Operations are counted in the
incarnation that asks, in the order in which they come in, and each request is one: an SDK that tries again asks twice.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, deque

from chaos.events.seen import Operated
from chaos.journal import Journal


class Cut(ConnectionError):
    """The incarnation was over while its operation was held: nobody is answered."""


class Operation:
    """An operation that is held; see `Operated`."""

    def __init__(self, phase: str, number: int, path: str) -> None:
        self.phase, self.number, self.path = phase, number, path
        self._decided = threading.Event()
        self._cut = False

    def go(self) -> None:
        """Let it go on."""
        self._decided.set()

    def cut(self) -> None:
        """End it without a reply."""
        self._cut = True
        self._decided.set()

    def wait(self) -> None:
        """Stand still until it may go on; raise Cut if it is to end."""
        self._decided.wait()
        if self._cut:
            raise Cut


class Operations:
    """The operations of one incarnation, for a selector: readable when one is held that was not received yet."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()  # the order of the numbers is that of the journal
        self._ready: deque[Operation] = deque()
        self._held: set[Operation] = set()
        self._counts: Counter[str] = Counter()
        self._signal = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK | os.EFD_SEMAPHORE)

    def fileno(self) -> int:
        """Return what becomes readable when an operation is held; -1 when the incarnation is over."""
        return self._signal

    def receive(self) -> Operation | None:
        """Return the operation that was held first of those not received yet; None if there is none."""
        with self._lock:
            if not self._ready:
                return None
            os.eventfd_read(self._signal)
            return self._ready.popleft()

    def hold(self, phase: str, path: str, digest: str) -> None:
        """Count and journal an operation, and stand still until it may go on; raise Cut if it may not."""
        with self._lock:
            if self._signal < 0:  # under way when its agent ended, and past the point where it could be stopped
                return
            self._counts[phase] += 1
            operation = Operation(phase, self._counts[phase], path)
            self._journal.add(Operated, phase=phase, number=operation.number, path=path, digest=digest)
            self._held.add(operation)
            self._ready.append(operation)
            os.eventfd_write(self._signal, 1)
        operation.wait()
        with self._lock:
            self._held.discard(operation)

    def end(self) -> None:
        """The incarnation is over: what it has held ends without a reply. May be called twice."""
        with self._lock:
            held, self._held = self._held, set()
            self._ready.clear()
            if self._signal >= 0:
                os.close(self._signal)
                self._signal = -1
        for operation in held:
            operation.cut()


class Holds:
    """What is held in one run: operations of *phases* (`chaos.plan.OPERATIONS`), of incarnations that have begun."""

    def __init__(self, journal: Journal) -> None:
        self.phases: frozenset[str] = frozenset()
        self._journal = journal
        self._lock = threading.Lock()
        self._begun: dict[int, Operations] = {}

    def begin(self, attempt: int) -> Operations:
        """Return the operations of the incarnation *attempt*, which are held from now on until they are ended."""
        with self._lock:
            self._begun[attempt] = Operations(self._journal)
            return self._begun[attempt]

    def hold(self, phase: str, path: str, digest: str = "") -> None:
        """Have this thread stand still until it may go on, if operations of the kind *phase* are held.

        Args:
            path: what is asked for.
            digest: of what it is asked with.

        Raises:
            Cut: the incarnation that asks was ended meanwhile.
        """
        if phase not in self.phases:
            return
        with self._lock:
            operations = self._begun.get(self._journal.actor)
        if operations is not None:
            operations.hold(phase, path, digest)

    def end(self) -> None:
        """The run is over, and all its incarnations are. May be called twice."""
        with self._lock:
            begun = list(self._begun.values())
        for operations in begun:
            operations.end()
