"""A LangGraph thread in SQLite, as `SqliteSaver` lays it out: the rows of `writes` are the deltas."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import ClassVar

from chaos.durable import Durable
from chaos.stores import Delta, Plain, Tail, _langgraph
from chaos.stores._langgraph import CHANNEL, Record, deltas
from chaos.stores._sqlite import opened, tail

DATABASE = "state.db"

_NEWEST = "(SELECT max(checkpoint_id) FROM checkpoints)"
_LINE = f"""
    WITH RECURSIVE line (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id) AS (
        SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id FROM checkpoints
        WHERE checkpoint_id = {_NEWEST}
        UNION
        SELECT c.thread_id, c.checkpoint_ns, c.checkpoint_id, c.parent_checkpoint_id FROM checkpoints AS c
        JOIN line ON c.thread_id = line.thread_id AND c.checkpoint_ns = line.checkpoint_ns
        AND c.checkpoint_id = line.parent_checkpoint_id
    )
"""
_LINKS = f"""
    {_LINE} SELECT c.rowid, length(line.parent_checkpoint_id) FROM line JOIN checkpoints AS c
    ON c.thread_id = line.thread_id AND c.checkpoint_ns = line.checkpoint_ns AND c.checkpoint_id = line.checkpoint_id
    WHERE line.parent_checkpoint_id IS NOT NULL ORDER BY line.checkpoint_id DESC
"""
_WRITES = f"""
    {_LINE} SELECT rowid, length(value), checkpoint_id IN (SELECT checkpoint_id FROM line),
        checkpoint_id >= coalesce({_NEWEST}, '')
    FROM writes WHERE channel = ? ORDER BY checkpoint_id, task_id, idx
"""
_SNAPSHOTS = f"""
    SELECT -rowid, length(checkpoint) FROM checkpoints
    WHERE checkpoint = (SELECT checkpoint FROM checkpoints WHERE checkpoint_id = {_NEWEST}) ORDER BY checkpoint_id
"""
_DUPLICATE_WRITE = """
    INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)
    SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, task_path,
        (SELECT max(idx) + 1 FROM writes AS w WHERE w.checkpoint_id = writes.checkpoint_id
        AND w.task_id = writes.task_id),
        channel, type, value
    FROM writes WHERE rowid = ?
"""
_DUPLICATE_SNAPSHOT = """
    INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
    SELECT thread_id, checkpoint_ns, checkpoint_id || '+', parent_checkpoint_id, type, checkpoint, metadata
    FROM checkpoints WHERE rowid = ?
"""


@dataclass(frozen=True)
class LanggraphSqlite(Plain):
    """Rows of the table `writes` for the conversation's channel, in the order of their checkpoints.

    A `DeltaChannel` counts the updates since its last snapshot in the metadata of the newest checkpoint
    (`counters_since_delta_snapshot`); these newest rows are live. A channel that is stored whole has no such counter:
    its rows are history, but for those of a step that has no checkpoint of its own yet.

    Where the newest checkpoint counts no update it holds the conversation whole. Then it is a live delta too: its row
    of `checkpoints`, which has all channels in one value, under its negative number. It stands where it was stored:
    the `latest` but for a step's writes without a checkpoint. `first` and `covered` are rows of `writes`.
    """

    linked: ClassVar[bool] = True
    whole: ClassVar[str] = ""

    def deltas(self, durable: Durable) -> tuple[Delta, ...]:
        if not (durable.folder / DATABASE).exists():
            return ()
        with opened(durable.folder / DATABASE) as database:
            if not _has_tables(database):
                return ()
            writes = [
                Record(row, size, bool(read), bool(pending))
                for row, size, read, pending in database.execute(_WRITES, (CHANNEL,))
            ]
            updates, _ = _since_snapshot(database)
            found = [] if updates else database.execute(_SNAPSHOTS).fetchall()
        return deltas(writes, updates, [Record(row, size, True, False) for row, size in found])

    def read(self, durable: Durable, delta: Delta) -> bytes:
        with opened(durable.folder / DATABASE) as database:
            found = database.execute(
                "SELECT value FROM writes WHERE rowid = ?1 UNION ALL"
                " SELECT checkpoint FROM checkpoints WHERE rowid = -?1",
                (delta.row,),
            ).fetchone()
        return found[0] if found else b""

    def write(self, durable: Durable, delta: Delta, data: bytes) -> None:
        with opened(durable.folder / DATABASE) as database:
            database.execute("UPDATE writes SET value = ? WHERE rowid = ?", (data, delta.row))
            database.execute("UPDATE checkpoints SET checkpoint = ? WHERE rowid = ?", (data, -delta.row))

    def delete(self, durable: Durable, delta: Delta) -> None:
        with opened(durable.folder / DATABASE) as database:
            database.execute("DELETE FROM writes WHERE rowid = ?", (delta.row,))
            database.execute("DELETE FROM checkpoints WHERE rowid = ?", (-delta.row,))

    def duplicate(self, durable: Durable, delta: Delta) -> None:
        with opened(durable.folder / DATABASE) as database:
            database.execute(_DUPLICATE_WRITE, (delta.row,))
            database.execute(_DUPLICATE_SNAPSHOT, (-delta.row,))

    def links(self, durable: Durable) -> tuple[Delta, ...]:
        if not (durable.folder / DATABASE).exists():
            return ()
        with opened(durable.folder / DATABASE) as database:
            if not _has_tables(database):
                return ()
            return _langgraph.links(database.execute(_LINKS).fetchall(), _since_snapshot(database)[1])

    def parent(self, durable: Durable, link: Delta) -> str:
        with opened(durable.folder / DATABASE) as database:
            query = "SELECT parent_checkpoint_id FROM checkpoints WHERE rowid = ?"
            found = database.execute(query, (link.row,)).fetchone()
        return (found[0] or "") if found else ""

    def relink(self, durable: Durable, link: Delta, parent: str) -> None:
        with opened(durable.folder / DATABASE) as database:
            database.execute(
                "UPDATE checkpoints SET parent_checkpoint_id = ? WHERE rowid = ?", (parent or None, link.row)
            )

    def tail(self, durable: Durable) -> Tail | None:
        return tail(durable.folder / DATABASE)

    def thread(self, durable: Durable) -> str:
        return str(durable.folder / DATABASE) if (durable.folder / DATABASE).exists() else ""


def _has_tables(database: sqlite3.Connection) -> bool:
    """Tell whether the saver came to make its tables; of an agent killed before that only the file is left."""
    return bool(database.execute("SELECT 1 FROM sqlite_master WHERE name = 'writes'").fetchone())


def _since_snapshot(database: sqlite3.Connection) -> tuple[int, int]:
    """Return the updates of the conversation and the steps since its last snapshot."""
    newest = database.execute(f"SELECT metadata FROM checkpoints WHERE checkpoint_id = {_NEWEST}").fetchone()
    if newest is None:
        return 0, 0
    counters = json.loads(newest[0]).get("counters_since_delta_snapshot") or {}
    updates, steps = counters.get(CHANNEL, (0, 0))
    return updates, steps
