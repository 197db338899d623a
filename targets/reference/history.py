"""A log of JSON lines in the durable zone, one for each step: appended to, or written anew each time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

FILE = "history.jsonl"


def lines(durable: Path) -> list[bytes]:
    """Return the complete lines of the log; a torn last line, which a kill left, is not one."""
    path = durable / FILE
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


class Log:
    """The log, open for appending, cut back to its first *keep* lines (all that are complete by default)."""

    def __init__(self, durable: Path, keep: int | None = None) -> None:
        kept = lines(durable)[:keep]
        self._file = os.open(durable / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.ftruncate(self._file, sum(len(line) + 1 for line in kept))

    def append(self, line: bytes, between: Callable[[], None] | None = None) -> None:
        """Append *line* and make it durable; *between* runs when it is written and not yet durable."""
        os.write(self._file, line + b"\n")
        if between is not None:
            between()
        os.fsync(self._file)


class Whole:
    """The log, written as a whole each time: into a second file that takes the place of the first."""

    def __init__(self, durable: Path) -> None:
        self._folder = durable
        self._text = b"".join(line + b"\n" for line in lines(durable))

    def append(self, line: bytes, between: Callable[[], None] | None = None) -> None:
        """Append *line* and make it durable; *between* runs when all is written to the second file."""
        self._text += line + b"\n"
        fresh = self._folder / f"{FILE}.new"
        with fresh.open("wb") as file:
            file.write(self._text)
            file.flush()
            if between is not None:
                between()
            os.fsync(file.fileno())
        fresh.rename(self._folder / FILE)
        _sync_folder(self._folder)


def _sync_folder(folder: Path) -> None:
    """Make durable which files are in *folder*: a rename is not by itself (fsync(2))."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
