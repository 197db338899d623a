"""The tables of `SqliteSaver` and `AsyncSqliteSaver`, read only; what is only in the `-wal` yet belongs to them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, Generic, TypeVar

from chaos.audit import AuditError, Finding, Unreadable
from chaos.audit.stored import Checkpoint, Namespace, Thread, Write
from chaos.audit.values import Sealed, Undecodable, content, decoded, from_json

_Made = TypeVar("_Made")

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

KNOWN_BYTES = 64 << 20
"""Of rows that were read before, together: as much as is audited in a run. The runs that are derived from one recorded
run have nearly all rows in common, and to compare bytes takes a hundredth of the time that it takes to decode them."""


class _Known(Generic[_Made]):
    """What was made of rows: the same again for a row that is the same, byte for byte."""

    def __init__(self) -> None:
        self._rows: dict[tuple[object, ...], tuple[tuple[object, ...], _Made]] = {}
        self._bytes = 0

    def get(self, name: tuple[object, ...], row: tuple[object, ...]) -> _Made | None:
        """Return what was made of the row *name*; None if that was another *row*."""
        found = self._rows.get(name)
        return found[1] if found is not None and found[0] == row else None

    def keep(self, name: tuple[object, ...], row: tuple[object, ...], made: _Made) -> _Made:
        """Remember what was made of a row in which there is nothing to report; return it."""
        size = sum(len(part) for part in row if isinstance(part, str | bytes))
        if self._bytes + size > KNOWN_BYTES:
            self._rows.clear()
            self._bytes = 0
        self._rows[name] = row, made
        self._bytes += size
        return made


_checkpoints_before = _Known[Checkpoint]()
_writes_before = _Known[Write]()


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
    for row in database.execute(_CHECKPOINTS, (thread.name, space)):
        name = thread.name, space, row[0]
        yield _checkpoints_before.get(name, row) or _checkpoint(thread, name, row)


def _checkpoint(thread: Thread, name: tuple[str, str, str], row: tuple[Any, ...]) -> Checkpoint:
    id, parent, kind, data, described = row
    metadata: dict[str, object] = {}
    held = None
    try:
        found = from_json(described if described is not None else "{}")
        metadata = found if isinstance(found, dict) else {}
        held = content(id, decoded(kind, data), metadata, None)
    except Sealed:
        thread.sealed += 1
    except Undecodable as error:
        thread.findings.append(Finding("undecodable", f"checkpoint {id}", str(error)))
    step = metadata.get("step")
    made = Checkpoint(id, parent, step if isinstance(step, int) else None, str(metadata.get("source", "")), held)
    return made if held is None else _checkpoints_before.keep(name, row, made)


def _writes(database: sqlite3.Connection, thread: Thread, space: str) -> Iterator[Write]:
    for row in database.execute(_WRITES, (thread.name, space)):
        name = thread.name, space, *row[:3]
        yield _writes_before.get(name, row) or _write(thread, name, row)


def _write(thread: Thread, name: tuple[object, ...], row: tuple[Any, ...]) -> Write:
    checkpoint, task, index, channel, kind, data = row
    write = Write(checkpoint, task, index, channel, blake2b(data or b"", digest_size=16).digest())
    try:
        decoded(kind, data)
    except Sealed:
        thread.sealed += 1
    except Undecodable as error:
        thread.findings.append(Finding("undecodable", str(write), str(error)))
    else:
        return _writes_before.keep(name, row, write)
    return write


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
