"""The tables of `SqliteSaver` and `AsyncSqliteSaver`, read only; what is only in the `-wal` yet belongs to them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from chaos.audit import AuditError, Finding, Unreadable
from chaos.audit.stored import Checkpoint, Content, Namespace, Thread, Write
from chaos.audit.values import Sealed, Undecodable, content, decoded, from_json

_HEADER = b"SQLite format 3\0"
_BUSY_SECONDS = 5.0  # a writer's transaction takes milliseconds
_CHECKPOINTS = """
    SELECT checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints
    WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id
"""
_WRITES = """
    SELECT checkpoint_id, task_id, idx, channel, type, value FROM writes
    WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id, task_id, idx
"""

MOST_KNOWN = 8192  # checkpoints, and written values, that are not decoded again; a kilobyte each at most
_read_before: dict[tuple[str, str | None, bytes, bool, str], Content] = {}
_good_before: dict[tuple[str | None, bytes, bool], None] = {}


def threads(place: str) -> list[str]:
    """Return the threads in the file *place*."""
    with _opened(place) as database:
        query = "SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM writes"
        return [thread for (thread,) in database.execute(query)]


def read(place: str, name: str) -> Thread:
    """Return the thread *name* of the file *place*."""
    thread = Thread(name)
    with _opened(place) as database:
        query = "SELECT checkpoint_ns FROM checkpoints WHERE thread_id = ?1"
        query += " UNION SELECT checkpoint_ns FROM writes WHERE thread_id = ?1"
        for (space,) in database.execute(query, (name,)).fetchall():
            checkpoints = {one.id: one for one in _checkpoints(database, thread, space)}
            thread.namespaces.append(Namespace(space, checkpoints, tuple(_writes(database, thread, space))))
    return thread


def _checkpoints(database: sqlite3.Connection, thread: Thread, space: str) -> Iterator[Checkpoint]:
    for id, parent, kind, data, described in database.execute(_CHECKPOINTS, (thread.name, space)):
        metadata, held = {}, None
        try:
            found = from_json(described if described is not None else "{}")
            metadata = found if isinstance(found, dict) else {}
            held = _known(id, kind, data, metadata)
        except Sealed:
            thread.sealed += 1
        except Undecodable as error:
            thread.findings.append(Finding("undecodable", f"checkpoint {id}", str(error)))
        step = metadata.get("step")
        yield Checkpoint(id, parent, step if isinstance(step, int) else None, str(metadata.get("source", "")), held)


def _known(id: str, kind: str | None, data: bytes | None, metadata: dict[str, object]) -> Content:
    """Return what the checkpoint says; the runs that are derived from one recorded run have most of them in common."""
    digest = blake2b(data or b"", digest_size=16).digest()
    key = id, kind, digest, data is None, repr(metadata)
    if (known := _read_before.get(key)) is None:
        if len(_read_before) >= MOST_KNOWN:
            _read_before.pop(next(iter(_read_before)))
        known = _read_before[key] = content(id, decoded(kind, data), metadata, None)
    return known


def _writes(database: sqlite3.Connection, thread: Thread, space: str) -> Iterator[Write]:
    for checkpoint, task, index, channel, kind, data in database.execute(_WRITES, (thread.name, space)):
        write = Write(checkpoint, task, index, channel, blake2b(data or b"", digest_size=16).digest())
        key = kind, write.digest, data is None
        try:
            if key not in _good_before:
                decoded(kind, data)
                _remember(key)
        except Sealed:
            thread.sealed += 1
        except Undecodable as error:
            thread.findings.append(Finding("undecodable", str(write), str(error)))
        yield write


def _remember(key: tuple[str | None, bytes, bool]) -> None:
    if len(_good_before) >= MOST_KNOWN:
        _good_before.pop(next(iter(_good_before)))
    _good_before[key] = None


@contextmanager
def _opened(place: str) -> Iterator[sqlite3.Connection]:
    """Open the file *place* for reading, at one moment of it."""
    path = Path(place)
    if not path.is_file():
        raise AuditError(f"{place}: no such file; name a file of SQLite or a postgresql:// address")
    with path.open("rb") as file:
        begins = file.read(len(_HEADER))
    if begins not in (b"", _HEADER):
        raise AuditError(f"{place}: not a SQLite database; name a file of SQLite or a postgresql:// address")
    # Without a log nobody has it open: then SQLite needs no files beside it, and leaves none.
    mode = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
    try:
        uri = f"{path.absolute().as_uri()}?{mode}"
        database = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
    except sqlite3.OperationalError as error:
        raise AuditError(f"{place}: {error}") from None
    try:
        # Damage may be in texts as well: what is not UTF-8 is shown as such, and is not the end of the audit.
        database.text_factory = lambda data: data.decode(errors="replace")
        database.execute("BEGIN")
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"checkpoints", "writes"} <= tables:
            raise AuditError(f"{place}: no thread of LangGraph's: it has no tables checkpoints and writes")
        yield database
    except sqlite3.DatabaseError as error:
        why = f"SQLite cannot read it ({error}); copy it with its -wal before you repair it"
        raise Unreadable(f"{place}: {why}") from error
    finally:
        database.close()
