"""A LangGraph thread in PostgreSQL, as `PostgresSaver` lays it out: the rows of `checkpoint_writes` are the deltas."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from chaos.durable import Durable
from chaos.stores import Delta, Plain, _langgraph
from chaos.stores._langgraph import CHANNEL, Record, deltas
from chaos.stores._postgres import PAGES_FOLLOW_THE_LOG

if TYPE_CHECKING:
    from psycopg import Connection

# A row has a key of several texts; a 64-bit hash of it stands for it, for it stays when the row is changed.
_WRITE_KEY = "hashtextextended(concat_ws('/', thread_id, checkpoint_ns, checkpoint_id, task_id, idx), 0)"
_BLOB_KEY = "hashtextextended(concat_ws('/', thread_id, checkpoint_ns, channel, version), 1)"
_CHECKPOINT_KEY = "hashtextextended(concat_ws('/', thread_id, checkpoint_ns, checkpoint_id), 2)"

_NEWEST = "(SELECT max(checkpoint_id) FROM checkpoints)"
_LINE = f"""
    WITH RECURSIVE line AS (
        SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id FROM checkpoints
        WHERE checkpoint_id = {_NEWEST}
        UNION
        SELECT c.thread_id, c.checkpoint_ns, c.checkpoint_id, c.parent_checkpoint_id FROM checkpoints AS c
        JOIN line ON c.thread_id = line.thread_id AND c.checkpoint_ns = line.checkpoint_ns
        AND c.checkpoint_id = line.parent_checkpoint_id
    )
"""
_LINKS = f"""
    {_LINE} SELECT {_CHECKPOINT_KEY}, length(parent_checkpoint_id) FROM line
    WHERE parent_checkpoint_id IS NOT NULL ORDER BY checkpoint_id DESC
"""
_WRITES = f"""
    {_LINE} SELECT {_WRITE_KEY}, length(blob), checkpoint_id IN (SELECT checkpoint_id FROM line),
        checkpoint_id >= coalesce({_NEWEST}, '')
    FROM checkpoint_writes WHERE channel = %s ORDER BY checkpoint_id, task_id, idx
"""
_UPDATES = f"""
    SELECT coalesce((metadata #>> ARRAY['counters_since_delta_snapshot', %s, '0'])::int, 0) FROM checkpoints
    WHERE checkpoint_id = {_NEWEST}
"""
_STEPS = f"""
    SELECT coalesce((metadata #>> ARRAY['counters_since_delta_snapshot', %s, '1'])::int, 0) FROM checkpoints
    WHERE checkpoint_id = {_NEWEST}
"""
_SNAPSHOTS = f"""
    SELECT {_BLOB_KEY}, length(blob) FROM checkpoint_blobs
    WHERE channel = %(channel)s AND blob = (
        SELECT b.blob FROM checkpoint_blobs AS b JOIN checkpoints AS c USING (thread_id, checkpoint_ns)
        WHERE c.checkpoint_id = {_NEWEST} AND b.channel = %(channel)s
        AND b.version = c.checkpoint -> 'channel_versions' ->> %(channel)s
    )
    ORDER BY version DESC
"""
_READ = f"""
    SELECT blob FROM checkpoint_writes WHERE {_WRITE_KEY} = %(row)s
    UNION ALL SELECT blob FROM checkpoint_blobs WHERE {_BLOB_KEY} = %(row)s
"""
_DUPLICATE_WRITE = f"""
    INSERT INTO checkpoint_writes
        (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
    SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, task_path,
        (SELECT max(idx) + 1 FROM checkpoint_writes AS w
        WHERE w.checkpoint_id = checkpoint_writes.checkpoint_id AND w.task_id = checkpoint_writes.task_id),
        channel, type, blob
    FROM checkpoint_writes WHERE {_WRITE_KEY} = %s
"""
_DUPLICATE_BLOB = f"""
    INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
    SELECT thread_id, checkpoint_ns, channel, version || '+', type, blob
    FROM checkpoint_blobs WHERE {_BLOB_KEY} = %s
"""


@dataclass(frozen=True)
class LanggraphPostgres(Plain):
    """Rows of the table `checkpoint_writes` for the conversation's channel, in the order of their checkpoints.

    Which of them are live, and when the newest checkpoint's own value is a delta too, is as for `LanggraphSqlite`.
    Here that value is a row of `checkpoint_blobs` with the conversation and nothing else.
    """

    linked: ClassVar[bool] = True
    whole: ClassVar[str] = PAGES_FOLLOW_THE_LOG

    def deltas(self, durable: Durable) -> tuple[Delta, ...]:
        if "postgres" not in durable.leases:
            return ()
        with _opened(durable) as database:
            if not _has_tables(database):
                return ()
            writes = [Record(*row) for row in database.execute(_WRITES.encode(), (CHANNEL,))]
            updates = database.execute(_UPDATES.encode(), (CHANNEL,)).fetchone() or (0,)
            found = [] if updates[0] else database.execute(_SNAPSHOTS.encode(), {"channel": CHANNEL}).fetchall()
        return deltas(writes, updates[0], [Record(row, size, True, False) for row, size in found])

    def read(self, durable: Durable, delta: Delta) -> bytes:
        with _opened(durable) as database:
            found = database.execute(_READ.encode(), {"row": delta.row}).fetchone()
        return bytes(found[0]) if found else b""

    def write(self, durable: Durable, delta: Delta, data: bytes) -> None:
        with _opened(durable) as database:
            for table, key in (("checkpoint_writes", _WRITE_KEY), ("checkpoint_blobs", _BLOB_KEY)):
                database.execute(f"UPDATE {table} SET blob = %s WHERE {key} = %s".encode(), (data, delta.row))

    def delete(self, durable: Durable, delta: Delta) -> None:
        with _opened(durable) as database:
            for table, key in (("checkpoint_writes", _WRITE_KEY), ("checkpoint_blobs", _BLOB_KEY)):
                database.execute(f"DELETE FROM {table} WHERE {key} = %s".encode(), (delta.row,))

    def duplicate(self, durable: Durable, delta: Delta) -> None:
        with _opened(durable) as database:
            database.execute(_DUPLICATE_WRITE.encode(), (delta.row,))
            database.execute(_DUPLICATE_BLOB.encode(), (delta.row,))

    def links(self, durable: Durable) -> tuple[Delta, ...]:
        if "postgres" not in durable.leases:
            return ()
        with _opened(durable) as database:
            if not _has_tables(database):
                return ()
            found = [(row, size) for row, size in database.execute(_LINKS.encode())]
            steps = database.execute(_STEPS.encode(), (CHANNEL,)).fetchone() or (0,)
        return _langgraph.links(found, steps[0])

    def parent(self, durable: Durable, link: Delta) -> str:
        query = f"SELECT coalesce(parent_checkpoint_id, '') FROM checkpoints WHERE {_CHECKPOINT_KEY} = %s"
        with _opened(durable) as database:
            found = database.execute(query.encode(), (link.row,)).fetchone()
        return str(found[0]) if found else ""

    def relink(self, durable: Durable, link: Delta, parent: str) -> None:
        command = f"UPDATE checkpoints SET parent_checkpoint_id = %s WHERE {_CHECKPOINT_KEY} = %s"
        with _opened(durable) as database:
            database.execute(command.encode(), (parent or None, link.row))

    def thread(self, durable: Durable) -> str:
        return durable.leases["postgres"].url if "postgres" in durable.leases else ""


@contextmanager
def _opened(durable: Durable) -> Iterator[Connection]:
    """Connect to the run's own database, for one transaction."""
    import psycopg

    with psycopg.connect(durable.leases["postgres"].url) as connection:
        yield connection


def _has_tables(database: Connection) -> bool:
    """Tell whether the saver came to make its tables; the last that it makes is `checkpoint_writes`."""
    found = database.execute("SELECT to_regclass('checkpoint_writes') IS NOT NULL").fetchone()
    return bool(found and found[0])
