"""One worker at a time: who took over last may act, and the others find out before they do.

durable/epoch    the number of the worker that took over last

Whoever changes the number, or acts in its name, holds a lock on that file meanwhile: what was begun is ended before
another one can take over, and nothing is begun afterwards. The kernel gives the lock back when a worker dies.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE = "epoch"
DIGITS = 20  # more takeovers than any thread will see


class Fenced(Exception):
    """Another worker has taken over: this one must not do anything any more."""


class Fence:
    """The fence of the thread that is kept in *durable*."""

    def __init__(self, durable: Path) -> None:
        self._file = os.open(durable / FILE, os.O_RDWR | os.O_CREAT, 0o644)
        self._epoch = 0

    def take(self) -> None:
        """Take over from whoever is there."""
        with self._locked():
            self._epoch = self._stored() + 1
            os.pwrite(self._file, b"%0*d" % (DIGITS, self._epoch), 0)
            os.fsync(self._file)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep all others from taking over meanwhile; raise Fenced if one has."""
        with self._locked():
            if self._stored() != self._epoch:
                raise Fenced(f"worker {self._stored()} has taken over from worker {self._epoch}")
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _stored(self) -> int:
        return int(os.pread(self._file, DIGITS, 0) or 0)
