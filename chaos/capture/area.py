"""Append-only files of blocks, and whole reads and writes."""

from __future__ import annotations

import os
from pathlib import Path

RECENT = 1 << 16  # blocks that are known by their digest, twice: some 25 MB of memory at most


class Area:
    """One append-only file of blocks. It has no name: nothing of it is left when this process is gone."""

    def __init__(self, file: Path, first: int) -> None:
        self.file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(file)
        self.first, self.end = first, first
        self._fresh: list[bytes] = []
        self._fresh_bytes = 0
        self._young: dict[bytes, int] = {}
        self._old: dict[bytes, int] = {}

    def find(self, digest: bytes) -> int | None:
        """Return where a block with *digest* is kept, if that is still known."""
        place = self._young.get(digest)
        return self._old.get(digest) if place is None else place

    def add(self, digest: bytes, block: bytes) -> int:
        """Return the place where *block* is once `flush` was called."""
        if len(self._young) >= RECENT:
            self._old, self._young = self._young, {}
        place = self._young[digest] = self.end + self._fresh_bytes
        self._fresh.append(block)
        self._fresh_bytes += len(block)
        return place

    def flush(self) -> None:
        """Write what was added."""
        if self._fresh:
            write(self.file, b"".join(self._fresh), self.end - self.first)
            self.end += self._fresh_bytes
            self._fresh, self._fresh_bytes = [], 0

    def forget(self) -> None:
        """Drop what was added and not written; where the file is the second one, everything."""
        self._fresh, self._fresh_bytes = [], 0
        self._young, self._old = {}, {}
        if self.first and self.end > self.first:
            os.ftruncate(self.file, 0)
            self.end = self.first


def fill(file: int, view: memoryview, start: int) -> int:
    """Read from the open *file* at *start* until *view* is full or the file ends; return how many bytes that were."""
    count = 0
    while count < len(view) and (got := os.preadv(file, [view[count:]], start + count)):
        count += got
    return count


def write(file: int, data: bytes | memoryview, start: int) -> None:
    """Write all of *data* into the open *file* at *start*."""
    rest = memoryview(data)
    while rest:
        done = os.pwrite(file, rest, start)
        rest, start = rest[done:], start + done
