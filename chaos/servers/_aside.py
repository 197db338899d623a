"""Bytes put aside in a file without a name: what is kept of a server is more than memory should hold."""

from __future__ import annotations

import os
import tempfile
import weakref
from dataclasses import dataclass


class Aside:
    """A file that is gone with the last that points into it."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile() as file:
            self.file = os.dup(file.fileno())
        self._end = 0
        weakref.finalize(self, os.close, self.file)

    def put(self, data: bytes) -> Piece:
        """Put *data* aside and return where it is."""
        start, left = self._end, memoryview(data)
        while left:
            left = left[os.pwrite(self.file, left, start + len(data) - len(left)) :]
        self._end += len(data)
        return Piece(self, start, len(data))


@dataclass(frozen=True, eq=False)
class Piece:
    """What was put *aside* there."""

    aside: Aside
    start: int
    length: int

    def read(self) -> bytes:
        """Return it."""
        found = bytearray()
        while len(found) < self.length:
            found += os.pread(self.aside.file, self.length - len(found), self.start + len(found))
        return bytes(found)
