"""An append-only log of JSON lines in the durable zone: one line for each step."""

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
