"""What a program in a container prints, taken in through a pipe: the last lines of a flood, or all of it."""

from __future__ import annotations

import collections
import os
import threading

from chaos.sandbox.incarnation import LOG_BYTES, LOG_LINES, READ_BYTES


class Output:
    """A pipe whose *writer* goes to the program, and what came out of it.

    Args:
        keep_bytes: so much is kept at least, from the end; None: everything.
    """

    def __init__(self, keep_bytes: int | None = LOG_BYTES) -> None:
        self._keep = keep_bytes
        self._chunks: collections.deque[bytes] = collections.deque()
        self._held = 0
        self._lock = threading.Lock()
        self._reader, self.writer = os.pipe()

    def begun(self) -> None:
        """Close our copy of the writing end: the program has its own. May be called twice."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def take_all(self) -> None:
        """Take in all that comes until the writers are gone."""
        while chunk := os.read(self._reader, READ_BYTES):
            with self._lock:
                self._chunks.append(chunk)
                self._held += len(chunk)
                while self._keep is not None and self._held - len(self._chunks[0]) >= self._keep:
                    self._held -= len(self._chunks.popleft())
        self.close()

    def close(self) -> None:
        """Close the reading end. May be called twice."""
        if self._reader >= 0:
            os.close(self._reader)
            self._reader = -1

    def content(self) -> bytes:
        """Return what was kept so far."""
        with self._lock:
            return b"".join(self._chunks)

    def lines(self) -> str:
        """Return the last lines."""
        text = self.content()[-LOG_BYTES:].decode(errors="replace")
        return "\n".join(text.splitlines()[-LOG_LINES:])
