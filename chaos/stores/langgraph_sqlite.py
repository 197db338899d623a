"""A LangGraph thread in SQLite, as `SqliteSaver` lays it out: the rows of `writes` are the deltas."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chaos.stores import Delta

DATABASE = "state.db"
CHANNEL = "messages"
"""The channel that holds the conversation; the other channels are rewritten whole in every checkpoint."""


@dataclass(frozen=True)
class LanggraphSqlite:
    """Rows of the table `writes` for the conversation's channel, in the order of their checkpoints.

    A `DeltaChannel` counts the updates since its last snapshot in the metadata of the newest checkpoint
    (`counters_since_delta_snapshot`); these newest rows are live. A full-state channel has no such counter:
    all its rows are history, for every checkpoint holds the whole value.
    """

    def deltas(self, durable: Path) -> tuple[Delta, ...]:
        if not (durable / DATABASE).exists():
            return ()
        with _opened(durable) as database:
            if not _has_tables(database):
                return ()
            rows = database.execute(
                "SELECT rowid, length(value) FROM writes WHERE channel = ? ORDER BY checkpoint_id, task_id, idx",
                (CHANNEL,),
            ).fetchall()
            live = _updates_since_snapshot(database)
            pending = _pending(database)
        oldest_live = len(rows) - pending - live
        return tuple(Delta(order, row, size, order >= oldest_live) for order, (row, size) in enumerate(rows))

    def read(self, durable: Path, delta: Delta) -> bytes:
        with _opened(durable) as database:
            found = database.execute("SELECT value FROM writes WHERE rowid = ?", (delta.row,)).fetchone()
        return found[0] if found else b""

    def write(self, durable: Path, delta: Delta, data: bytes) -> None:
        with _opened(durable) as database:
            database.execute("UPDATE writes SET value = ? WHERE rowid = ?", (data, delta.row))

    def delete(self, durable: Path, delta: Delta) -> None:
        with _opened(durable) as database:
            database.execute("DELETE FROM writes WHERE rowid = ?", (delta.row,))

    def duplicate(self, durable: Path, delta: Delta) -> None:
        with _opened(durable) as database:
            database.execute(
                "INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type,"
                " value) SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, task_path,"
                " (SELECT max(idx) + 1 FROM writes AS w WHERE w.checkpoint_id = writes.checkpoint_id"
                " AND w.task_id = writes.task_id), channel, type, value FROM writes WHERE rowid = ?",
                (delta.row,),
            )


@contextmanager
def _opened(durable: Path) -> Iterator[sqlite3.Connection]:
    """Open the database, `-wal` included: right after a SIGKILL the whole thread may live only there."""
    connection = sqlite3.connect(durable / DATABASE)
    try:
        with connection:
            yield connection
    finally:
        connection.close()


def _has_tables(database: sqlite3.Connection) -> bool:
    """Tell whether the saver came to make its tables; of an agent killed before that only the file is left."""
    return bool(database.execute("SELECT 1 FROM sqlite_master WHERE name = 'writes'").fetchone())


def _updates_since_snapshot(database: sqlite3.Connection) -> int:
    newest = database.execute("SELECT metadata FROM checkpoints ORDER BY checkpoint_id DESC LIMIT 1").fetchone()
    if newest is None:
        return 0
    counters = json.loads(newest[0]).get("counters_since_delta_snapshot") or {}
    updates: int = counters.get(CHANNEL, [0])[0]
    return updates


def _pending(database: sqlite3.Connection) -> int:
    """Return how many rows hang on the newest checkpoint: writes of a step that has no checkpoint of its own yet."""
    (count,) = database.execute(
        "SELECT count(*) FROM writes WHERE channel = ?"
        " AND checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints)",
        (CHANNEL,),
    ).fetchone()
    return int(count)
