"""How much of a SQLite database on disk is its write-ahead log: bytes that a checkpoint gives back.

A killed writer leaves its log behind, as long as its largest commit. What the database holds is its size as the log's
last commit states it (https://www.sqlite.org/fileformat2.html#walformat); the rest is there to be written once more.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

_HEADER = struct.Struct(">8xI4x8s8x")  # of the log: size of a page, salts
_FRAME = struct.Struct(">4xI8s8x")  # of each page in it: pages of the database if this one ends a commit, salts


def surplus(folder: Path) -> int:
    """Return by how many bytes the databases in *folder* would shrink if their logs were checkpointed.

    Databases stand there or in a folder of their own; deeper down are files of the agent, thousands in snapshots.
    """
    return sum(_surplus(log) for pattern in ("*-wal", "*/*-wal") for log in folder.glob(pattern) if log.is_file())


def _surplus(log: Path) -> int:
    base = str(log).removesuffix("-wal")
    present = sum(_size(Path(base + suffix)) for suffix in ("", "-wal", "-shm"))
    return max(0, present - (_committed(log) or _size(Path(base))))


def last_commit(log: Path) -> tuple[int, int]:
    """Return where in *log* its last commit begins and ends; (0, 0) if it has none."""
    found = [(0, 0), *((begin, end) for begin, end, _ in _commits(log))]
    return found[-1]


def _committed(log: Path) -> int:
    """Return the bytes of the database as the last commit in *log* leaves it; 0 if there is none."""
    return next(reversed([size for _, _, size in _commits(log)]), 0)


def _commits(log: Path) -> Iterator[tuple[int, int, int]]:
    """Yield where each commit in *log* begins and ends, and the size of the database after it."""
    if not log.is_file():
        return
    with log.open("rb") as file:
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size:
            return
        page_bytes, salts = _HEADER.unpack(head)
        begin, size = _HEADER.size, log.stat().st_size
        while len(frame := file.read(_FRAME.size)) == _FRAME.size:
            pages, own = _FRAME.unpack(frame)
            if own != salts:  # left over from before the log was begun anew
                break
            end = file.seek(page_bytes, 1)
            if end > size:
                break
            if pages:
                yield begin, end, pages * page_bytes
                begin = end


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
