"""Everything seen in one run, in order, appended to disk as it happens.

The events of a run are the lines of its `journal.jsonl`. Checks, numbers and reports work on events alone, so that an
old journal can be judged again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from chaos.events.done import Done
from chaos.events.seen import Seen

AnyEvent = Seen | Done

_decoder = msgspec.json.Decoder(AnyEvent)
_encoder = msgspec.json.Encoder()


class Journal:
    """An append-only JSONL file of events, safe to append to from several threads.

    Args:
        path: the file; its folder exists.
        clock: seconds, monotonic; handed in so that tests are exact.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.attempt = 0
        self.events: list[AnyEvent] = []
        self._acting = threading.local()
        self._clock = clock
        self._began = clock()
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def now(self) -> float:
        """Return the seconds since the run began, to the microsecond."""
        return round(self._clock() - self._began, 6)

    @property
    def actor(self) -> int:
        """The attempt that this thread acts for: the current one, unless `acting` says another."""
        return getattr(self._acting, "attempt", 0) or self.attempt

    def add(self, kind: type[AnyEvent], **fields: Any) -> None:
        """Append an event of *kind* that happens now, in the current attempt or the one that this thread acts for."""
        with self._lock:
            event = kind(at=self.now(), attempt=self.actor, **fields)
            self.events.append(event)
            os.write(self._file, _encoder.encode(event) + b"\n")

    @contextmanager
    def acting(self, attempt: int) -> Iterator[None]:
        """Have what this thread adds belong to *attempt*, which need not be the current one; 0: the current one."""
        before = getattr(self._acting, "attempt", 0)
        self._acting.attempt = attempt
        try:
            yield
        finally:
            self._acting.attempt = before

    def close(self) -> None:
        """Close the file; the events stay readable."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def read(path: Path) -> tuple[AnyEvent, ...]:
    """Return the events of the journal at *path*; a torn last line (the harness was killed) is left out."""
    lines = path.read_bytes().split(b"\n")
    return tuple(_decoder.decode(line) for line in lines[:-1])
