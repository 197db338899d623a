"""SQLite files as stores open them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
