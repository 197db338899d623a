"""How much of a SQLite database on disk is its write-ahead log: bytes that a checkpoint gives back.

A killed writer leaves its log behind, as long as its largest commit. What the database holds is its size as the log's
last commit states it (https://www.sqlite.org/fileformat2.html#walformat); the rest is there to be written once more.
"""

from __future__ import annotations

import struct
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


def _committed(log: Path) -> int:
    """Return the bytes of the database as the last commit in *log* leaves it; 0 if there is none."""
    committed = 0
    with log.open("rb") as file:
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size:
            return 0
        page_bytes, salts = _HEADER.unpack(head)
        while len(frame := file.read(_FRAME.size)) == _FRAME.size:
            pages, own = _FRAME.unpack(frame)
            if own != salts:  # left over from before the log was begun anew
                break
            committed = pages * page_bytes or committed
            file.seek(page_bytes, 1)
    return committed


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
