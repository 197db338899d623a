"""No whole thread is called damaged, and every structural damage to one is found; on files that LangGraph wrote."""

from __future__ import annotations

import asyncio
import functools
import shutil
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.base import id as ids
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from chaos.audit import Audit, AuditError, audit, threads
from tests.audit.threads import STORIES, loop
from tests.audit.threads import given as first_input

CONFIG: Any = {"configurable": {"thread_id": "t"}}
EVERY = (None, 2, 100)


def stored(path: Path, story: str, every: int | None, durability: str) -> Path:
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        STORIES[story](every)(SqliteSaver(connection), CONFIG, durability)
    return path


def kinds(found: Audit) -> set[str]:
    return {finding.kind for finding in found.findings}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("story", STORIES)
def test_a_whole_thread_has_no_damage(tmp_path: Path, story: str, durability: str) -> None:
    for every in EVERY:
        found = audit(str(stored(tmp_path / f"{every}.db", story, every, durability)), "t")
        assert [str(one) for one in found.findings] == [], every
        assert found.checkpoints > 0 and found.blind


@pytest.mark.parametrize("every", EVERY)
def test_a_thread_over_a_clock_that_was_set_back_has_none(
    tmp_path: Path, every: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids begin with the wall clock, so that what is written later sorts before."""
    with closing(sqlite3.connect(tmp_path / "c.db", check_same_thread=False)) as connection:
        app = loop(SqliteSaver(connection), every)
        app.invoke(first_input(), CONFIG, durability="sync")
        earlier = time.time_ns() - 3600 * 10**9
        monkeypatch.setattr(ids.time, "time_ns", lambda: earlier)
        monkeypatch.setattr(ids, "_last_v6_timestamp", None)  # another process
        app.invoke(first_input(), CONFIG, durability="sync")
        first = connection.execute("SELECT min(checkpoint_id), parent_checkpoint_id FROM checkpoints").fetchone()
    assert first[1] is not None, "the least id is not the first"
    assert [str(one) for one in audit(str(tmp_path / "c.db"), "t").findings] == []


def test_a_thread_of_the_asynchronous_saver_has_none(tmp_path: Path) -> None:
    async def run(every: int, durability: Any) -> None:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "a.db")) as saver:
            config: Any = {"configurable": {"thread_id": f"{every} {durability}"}}
            for _ in range(2):
                await loop(saver, every).ainvoke(first_input(), config, durability=durability)

    for every, durability in ((2, "sync"), (100, "async"), (100, "exit")):
        asyncio.run(run(every, durability))
    names = threads(str(tmp_path / "a.db"))
    assert names == ("100 async", "100 exit", "2 sync")
    assert [audit(str(tmp_path / "a.db"), name).findings for name in names] == [(), (), ()]


DYING = """
import os, sqlite3, sys
from langgraph.checkpoint.sqlite import SqliteSaver
from tests.audit.test_sqlite import CONFIG
from tests.audit.threads import given, loop

path, every, durability, calls, phase = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5]

class Dies(SqliteSaver):
    left = calls
    def put(self, *given):
        if phase == "before put": self.count()
        done = super().put(*given)
        if phase == "after put": self.count()
        return done
    def put_writes(self, *given):
        if phase == "before put_writes": self.count()
        super().put_writes(*given)
        if phase == "after put_writes": self.count()
    def count(self):
        Dies.left -= 1
        if Dies.left == 0: os.kill(os.getpid(), 9)

app = loop(Dies(sqlite3.connect(path, check_same_thread=False)), every or None)
app.invoke(None if app.get_state(CONFIG).values else given(), CONFIG, durability=durability)
"""


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_thread_that_was_killed_in_any_phase_has_none(tmp_path: Path, durability: str) -> None:
    """In each phase of a commit, and again in the one that resumed; forked, for LangGraph takes a second to import."""
    import os

    killed = 0
    for number, phase in enumerate(("before put", "after put", "before put_writes", "after put_writes")):
        for every in (0, 100):
            path = tmp_path / f"{number} {every}.db"
            for calls in (4, 2):
                if not (pid := os.fork()):
                    try:
                        import sys

                        sys.argv = ["", str(path), str(every), durability, str(calls), phase]
                        exec(DYING, {})
                    finally:
                        os._exit(0)
                killed += os.waitpid(pid, 0)[1] == 9
                if path.exists() and path.stat().st_size and "t" in _threads(path):
                    assert audit(str(path), "t").findings == (), (phase, every)
    assert killed or durability == "exit"


def _threads(path: Path) -> tuple[str, ...]:
    try:
        return threads(str(path))
    except AuditError:  # killed before the tables were made
        return ()


DOUBLE = """
    INSERT INTO writes SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, (SELECT max(idx) + 1
    FROM writes AS o WHERE o.checkpoint_id = w.checkpoint_id AND o.task_id = w.task_id), channel, type, value
    FROM writes AS w WHERE rowid = ?
"""


class Damage:
    """Ways to damage the database *rows*, each at a row that *draw* chooses; it says which kind must be found."""

    def __init__(self, database: sqlite3.Connection, draw: st.DataObject) -> None:
        self._database, self._draw = database, draw

    def row(self, query: str, *values: object) -> Any:
        """Draw one of the rows that *query* finds; without any, the example proves nothing."""
        rows = self._database.execute(query, values).fetchall()
        assume(rows)
        return self._draw.draw(st.sampled_from(rows))

    def missing_write(self) -> str:
        rowid, checkpoint, task = self.row(
            "SELECT rowid, checkpoint_id, task_id FROM writes AS w WHERE channel = 'items' AND EXISTS"
            " (SELECT 1 FROM checkpoints AS c WHERE c.parent_checkpoint_id = w.checkpoint_id"
            " AND json_extract(metadata, '$.counters_since_delta_snapshot.items[0]') > 0)"
        )
        alone = "SELECT count(*) FROM writes WHERE checkpoint_id = ? AND channel = 'items' AND task_id != ?"
        assume(not self._database.execute(alone, (checkpoint, task)).fetchone()[0])  # else it is a blind spot
        alone = "SELECT count(*) FROM writes WHERE checkpoint_id = ? AND channel = 'items' AND task_id = ?"
        assume(self._database.execute(alone, (checkpoint, task)).fetchone()[0] == 1)
        self._database.execute("DELETE FROM writes WHERE rowid = ?", (rowid,))
        return "missing"

    def missing_write_before_others_of_its_task(self) -> str:
        (rowid,) = self.row(
            "SELECT rowid FROM writes AS w WHERE idx >= 0 AND EXISTS (SELECT 1 FROM writes AS o WHERE o.idx > w.idx AND"
            " o.checkpoint_id = w.checkpoint_id AND o.task_id = w.task_id) AND NOT EXISTS (SELECT 1 FROM writes AS o"
            " WHERE o.idx < 0 AND o.checkpoint_id = w.checkpoint_id AND o.task_id = w.task_id)"
        )
        self._database.execute("DELETE FROM writes WHERE rowid = ?", (rowid,))
        return "missing"

    def missing_ancestor(self) -> str:
        (rowid,) = self.row(
            "SELECT rowid FROM checkpoints WHERE checkpoint_id IN (SELECT parent_checkpoint_id FROM checkpoints)"
        )
        self._database.execute("DELETE FROM checkpoints WHERE rowid = ?", (rowid,))
        return "unlinked"

    def cut_link(self) -> str:
        (rowid,) = self.row("SELECT rowid FROM checkpoints WHERE parent_checkpoint_id IS NOT NULL")
        self._database.execute("UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE rowid = ?", (rowid,))
        return "unlinked"

    def skipping_link(self) -> str:
        rowid, grandparent = self.row(
            "SELECT c.rowid, p.parent_checkpoint_id FROM checkpoints AS c JOIN checkpoints AS p ON"
            " p.checkpoint_id = c.parent_checkpoint_id WHERE p.parent_checkpoint_id IS NOT NULL"
            # A fork may change nothing, or become a copy of what it was made from: the blind spots.
            " AND 'fork' NOT IN (json_extract(p.metadata, '$.source'), json_extract(c.metadata, '$.source'))"
        )
        self._database.execute("UPDATE checkpoints SET parent_checkpoint_id = ? WHERE rowid = ?", (grandparent, rowid))
        return "unlinked"

    def link_in_a_circle(self) -> str:
        rowid, child = self.row(
            "SELECT p.rowid, c.checkpoint_id FROM checkpoints AS c JOIN checkpoints AS p"
            " ON p.checkpoint_id = c.parent_checkpoint_id"
        )
        self._database.execute("UPDATE checkpoints SET parent_checkpoint_id = ? WHERE rowid = ?", (child, rowid))
        return "unlinked"

    def doubled_write(self) -> str:
        (rowid,) = self.row("SELECT rowid FROM writes WHERE channel = 'items'")
        self._database.execute(DOUBLE, (rowid,))
        return "doubled"

    def checkpoint_under_another_id(self) -> str:
        (rowid,) = self.row("SELECT rowid FROM checkpoints")
        self._database.execute(
            "INSERT INTO checkpoints SELECT thread_id, checkpoint_ns, checkpoint_id || '+', parent_checkpoint_id, type,"
            " checkpoint, metadata FROM checkpoints WHERE rowid = ?", (rowid,)
        )  # fmt: skip
        return "undecodable"

    def unreadable_value(self) -> str:
        table, column = self._draw.draw(
            st.sampled_from([("writes", "value"), ("checkpoints", "checkpoint"), ("checkpoints", "metadata")])
        )
        (rowid,) = self.row(f"SELECT rowid FROM {table} WHERE length({column}) > 1")
        new = self._draw.draw(st.sampled_from([f"substr({column}, 1, length({column}) / 2)", "x''", "x'c1'"]))
        self._database.execute(f"UPDATE {table} SET {column} = {new} WHERE rowid = ?", (rowid,))
        return "undecodable"

    def another_type(self) -> str:
        (rowid,) = self.row("SELECT rowid FROM writes WHERE length(value) > 0")
        kind = self._draw.draw(st.sampled_from(["bogus", "null", None]))
        self._database.execute("UPDATE writes SET type = ? WHERE rowid = ?", (kind, rowid))
        return "undecodable"


WAYS = [name for name in vars(Damage) if not name.startswith("_") and name != "row"]


@functools.cache
def original(story: str, every: int | None, durability: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return stored(Path(folder, "t.db"), story, every, durability).read_bytes()


@pytest.mark.parametrize("way", WAYS)
@given(
    story=st.sampled_from([name for name in STORIES if name not in ("messages", "functional")]),
    every=st.sampled_from([None, 2, 100]),
    durability=st.sampled_from(["sync", "exit"]),
    draw=st.data(),
)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_every_structural_damage_is_found(
    tmp_path_factory: pytest.TempPathFactory, way: str, story: str, every: int | None, durability: str,
    draw: st.DataObject,
) -> None:  # fmt: skip
    assume("link" not in way or (durability == "sync" and story != "mixed"))  # stored at an exit: see the blind spots
    assume(every is not None or way != "missing_write")  # whole channels are not read from writes
    path = tmp_path_factory.getbasetemp() / "damaged.db"
    path.write_bytes(original(story, every, durability))
    with closing(sqlite3.connect(path)) as database, database:
        kind = getattr(Damage(database, draw), way)()
    assert kind in kinds(audit(str(path), "t"))


@pytest.mark.parametrize("way", ["cut_link", "skipping_link"])
def test_a_wrong_link_between_runs_that_were_stored_at_their_exit_shows_where_deltas_depend_on_it(
    tmp_path: Path, way: str
) -> None:
    path = stored(tmp_path / "t.db", "conversation", 100, "exit")
    with closing(sqlite3.connect(path)) as database, database:
        [newest], [root] = (
            database.execute(f"SELECT {which}(checkpoint_id) FROM checkpoints").fetchone() for which in ("max", "min")
        )
        new = None if way == "cut_link" else root
        database.execute("UPDATE checkpoints SET parent_checkpoint_id = ? WHERE checkpoint_id = ?", (new, newest))
    assert kinds(audit(str(path), "t")) & {"unlinked", "missing"}


def test_what_it_says(tmp_path: Path) -> None:
    path = stored(tmp_path / "t.db", "straight", 100, "sync")
    with closing(sqlite3.connect(path)) as database, database:
        steps = dict(database.execute("SELECT json_extract(metadata, '$.step'), checkpoint_id FROM checkpoints"))
        database.execute("DELETE FROM writes WHERE checkpoint_id = ? AND channel = 'items'", (steps[2],))
    [missing, gap] = audit(str(path), "t").findings
    assert str(missing) == (
        f"missing: checkpoint {steps[2]} (step 2), items: a row that led to checkpoint {steps[3]} (step 3)"
    )
    assert gap.kind == "missing" and gap.what == "write 0 of 3"


def test_it_reads_the_write_ahead_log_and_changes_nothing(tmp_path: Path) -> None:
    """Of a killed thread most may be in the log: then the file beside it is all but empty."""
    path, copy = tmp_path / "t.db", tmp_path / "copy"
    copy.mkdir()
    connection = sqlite3.connect(path, check_same_thread=False)
    STORIES["straight"](100)(SqliteSaver(connection), CONFIG, "sync")
    for name in ("t.db", "t.db-wal"):
        shutil.copy(tmp_path / name, copy)
    connection.close()
    before = [(copy / name).read_bytes() for name in ("t.db", "t.db-wal")]
    assert len(before[0]) <= 4096 < len(before[1])
    found = audit(str(copy / "t.db"), "t")
    assert (found.checkpoints, found.findings) == (7, ())
    assert [(copy / name).read_bytes() for name in ("t.db", "t.db-wal")] == before


def test_what_only_its_owner_can_open_is_no_damage_and_is_told(tmp_path: Path) -> None:
    path = stored(tmp_path / "t.db", "straight", 100, "sync")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE writes SET type = 'msgpack+aes', value = x'00' WHERE channel = 'items'")
        changed = database.execute("UPDATE checkpoints SET type = 'pickle'").rowcount
    found = audit(str(path), "t")
    assert found.findings == ()
    assert f"what is in {changed + 6} values, encrypted or pickled: they were not opened" in found.blind


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no such file"),
        (b"", "no thread of LangGraph's"),
        (b"hello, this is text", "not a SQLite database"),
        (b"SQLite format 3\0 and nothing else", "SQLite cannot read it"),
    ],
)
def test_what_is_no_store_is_told(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "x.db"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(AuditError, match=says):
        threads(str(path))


def test_an_unknown_thread_is_answered_with_a_near_one(tmp_path: Path) -> None:
    path = stored(tmp_path / "t.db", "straight", 100, "sync")
    with pytest.raises(AuditError, match=r"no thread 'tt' at .*; did you mean 't'\?"):
        audit(str(path), "tt")
