"""SQLite files as stores open them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.sqlite_log import last_commit
from chaos.stores import Tail

SECTOR_BYTES = 512
"""The least that a disk writes as a whole; many have 4096, of which this is a part."""


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the database at *path*, commit in the end and close it.

    The `-wal` beside it is part of it: right after a SIGKILL a whole thread may live only there. What a SIGKILL cut off
    is rolled back by opening it.
    """
    connection = sqlite3.connect(path)
    try:
        with connection:
            yield connection
    finally:
        connection.close()


def tail(path: Path) -> Tail | None:
    """Return where the last commit to the database at *path* is in its write-ahead log; None if that is empty.

    The log has a checksum for each page and a mark at the last page of a commit: whoever opens it goes on from the
    last commit that is whole.
    """
    log = path.with_name(f"{path.name}-wal")
    begin, end = last_commit(log)
    return Tail(log, begin, end, SECTOR_BYTES) if end else None
