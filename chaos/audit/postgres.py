"""The tables of `PostgresSaver` and `AsyncPostgresSaver`, read in one read-only transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING

from chaos.audit import AuditError, Finding, shown
from chaos.audit.stored import Checkpoint, Key, Namespace, Thread, Write
from chaos.audit.values import Sealed, Snapshot, Undecodable, content, decoded

if TYPE_CHECKING:
    from psycopg import Connection

_CONNECT_SECONDS = 5
_TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
_ROWS_AT_ONCE = 200  # a value may be megabytes: never a whole table in memory
_CHECKPOINTS = """
    SELECT checkpoint_id, parent_checkpoint_id, checkpoint, metadata FROM checkpoints
    WHERE thread_id = %s AND checkpoint_ns = %s ORDER BY checkpoint_id
"""
_WRITES = """
    SELECT checkpoint_id, task_id, idx, channel, type, blob FROM checkpoint_writes
    WHERE thread_id = %s AND checkpoint_ns = %s ORDER BY checkpoint_id, task_id, idx
"""
_BLOBS = """
    SELECT channel, version, type, blob FROM checkpoint_blobs
    WHERE thread_id = %s AND checkpoint_ns = %s ORDER BY channel, version
"""


def threads(place: str) -> list[str]:
    """Return the threads at the address *place*."""
    with _opened(place) as database:
        query = " UNION ".join(f"SELECT thread_id FROM {table}" for table in _TABLES)
        return [str(thread) for (thread,) in database.execute(query.encode())]


def read(place: str, name: str) -> Thread:
    """Return the thread *name* at the address *place*."""
    thread = Thread(name)
    with _opened(place) as database:
        query = " UNION ".join(f"SELECT checkpoint_ns FROM {table} WHERE thread_id = %(thread)s" for table in _TABLES)
        spaces = [str(space) for (space,) in database.execute(query.encode(), {"thread": name})]
        for space in sorted(spaces):
            blobs, snapshots = _blobs(database, thread, space)
            checkpoints = {one.id: one for one in _checkpoints(database, thread, space, blobs, snapshots)}
            writes = tuple(_writes(database, thread, space))
            thread.namespaces.append(Namespace(space, checkpoints, writes, blobs))
    return thread


def _checkpoints(
    database: Connection, thread: Thread, space: str, blobs: frozenset[Key], snapshots: frozenset[Key]
) -> Iterator[Checkpoint]:
    for id, parent, value, metadata in _rows(database, _CHECKPOINTS, thread.name, space):
        held = None
        try:
            held = content(str(id), _with_snapshots(value, snapshots), metadata, blobs)
        except Undecodable as error:
            thread.findings.append(Finding("undecodable", f"checkpoint {id}", str(error)))
        step = metadata.get("step")
        yield Checkpoint(id, parent, step if isinstance(step, int) else None, str(metadata.get("source", "")), held)


def _with_snapshots(value: object, snapshots: frozenset[Key]) -> object:
    """Return the checkpoint *value* with each mark of a snapshot that has a row replaced by what SQLite would have."""
    if not isinstance(value, dict) or not isinstance(value.get("channel_values"), dict):
        return value
    versions = value.get("channel_versions") or {}
    held = {
        channel: Snapshot(None) if Key(channel, str(versions.get(channel))) in snapshots else inline
        for channel, inline in value["channel_values"].items()
    }
    return {**value, "channel_values": held}


def _blobs(database: Connection, thread: Thread, space: str) -> tuple[frozenset[Key], frozenset[Key]]:
    """Return the values that have rows of their own, and which of them are snapshots of delta channels."""
    found, snapshots = set(), set()
    for channel, version, kind, data in _rows(database, _BLOBS, thread.name, space):
        if kind == "empty":
            continue
        found.add(Key(channel, version))
        try:
            if isinstance(decoded(kind, data), Snapshot):
                snapshots.add(Key(channel, version))
        except Sealed:
            thread.sealed += 1
        except Undecodable as error:
            thread.findings.append(Finding("undecodable", f"value of {channel}, version {version}", str(error)))
    return frozenset(found), frozenset(snapshots)


def _writes(database: Connection, thread: Thread, space: str) -> Iterator[Write]:
    for checkpoint, task, index, channel, kind, data in _rows(database, _WRITES, thread.name, space):
        write = Write(checkpoint, str(task), index, channel, blake2b(data or b"", digest_size=16).digest())
        try:
            decoded(kind, data)
        except Sealed:
            thread.sealed += 1
        except Undecodable as error:
            thread.findings.append(Finding("undecodable", str(write), str(error)))
        yield write


def _rows(database: Connection, query: str, thread: str, space: str) -> Iterator[tuple]:  # type: ignore[type-arg]
    with database.cursor(name="rows", binary=True) as cursor:
        cursor.itersize = _ROWS_AT_ONCE
        yield from cursor.execute(query.encode(), (thread, space))


@contextmanager
def _opened(place: str) -> Iterator[Connection]:
    """Connect to the address *place*, for one transaction that reads one moment of it."""
    try:
        import psycopg
    except ImportError as error:
        raise AuditError(f"no PostgreSQL driver ({error}): pip install 'pytest-chaos[strategies]'") from None
    try:
        with psycopg.connect(place, connect_timeout=_CONNECT_SECONDS) as database:
            database.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            database.read_only = True
            query = "SELECT count(*) FROM unnest(%s::text[]) AS t WHERE to_regclass(t) IS NOT NULL"
            found = database.execute(query, (list(_TABLES),)).fetchone()
            if found != (len(_TABLES),):
                raise AuditError(f"{shown(place)}: no threads of LangGraph's: it lacks the tables {', '.join(_TABLES)}")
            yield database
    except psycopg.Error as error:
        raise AuditError(f"{shown(place)}: {str(error).strip().splitlines()[0]}") from None
