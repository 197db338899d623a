"""The store's view of a thread agrees with what LangGraph itself reads back."""

import shutil
import sqlite3
from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from chaos.durable import Durable
from chaos.stores.langgraph_sqlite import LanggraphSqlite
from tests.stores import thread
from tests.stores.thread import TURNS

STORE = LanggraphSqlite()


def connect(durable: Durable) -> sqlite3.Connection:
    return sqlite3.connect(durable.folder / "state.db", check_same_thread=False)


def messages(durable: Durable, every: int | None) -> list[str]:
    return thread.messages(SqliteSaver(connect(durable)), every)


def stored(folder: Path, every: int | None) -> Durable:
    thread.run(SqliteSaver(connect(Durable(folder))), every)
    return Durable(folder)


def copied(durable: Durable, name: object) -> Durable:
    target = durable.folder / "copies" / str(name)
    return Durable(shutil.copytree(durable.folder, target, ignore=shutil.ignore_patterns("copies")))


@pytest.fixture(params=[3, 100])
def every(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def durable(tmp_path: Path, every: int) -> Durable:
    return stored(tmp_path, every)


def test_no_store_has_no_deltas(tmp_path: Path) -> None:
    assert STORE.deltas(Durable(tmp_path)) == ()


def test_every_message_is_one_delta(durable: Durable) -> None:
    assert len(STORE.deltas(durable)) == 1 + TURNS


def test_exactly_the_live_deltas_matter(durable: Durable, every: int) -> None:
    """Deleting a delta changes what LangGraph reads if and only if the store calls it live."""
    whole = messages(durable, every)
    deltas = STORE.deltas(durable)
    assert any(delta.live for delta in deltas)
    assert any(not delta.live for delta in deltas) is (every == 3)
    for delta in deltas:
        copy = copied(durable, delta.order)
        STORE.delete(copy, delta)
        assert (messages(copy, every) != whole) is delta.live, delta
        assert len(STORE.deltas(copy)) == len(deltas) - 1


def test_write_and_read_back(durable: Durable) -> None:
    delta = STORE.deltas(durable)[-1]
    STORE.write(durable, delta, b"\x91\xa3new")
    assert STORE.read(durable, delta) == b"\x91\xa3new"
    STORE.delete(durable, delta)
    assert STORE.read(durable, delta) == b""


def test_a_duplicate_is_read_twice(durable: Durable, every: int) -> None:
    whole = messages(durable, every)
    live = next(delta for delta in STORE.deltas(durable) if delta.live)
    STORE.duplicate(durable, live)
    assert len(messages(durable, every)) == len(whole) + 1


@pytest.mark.parametrize("every", [None, 4], ids=["stored whole", "a delta channel at its snapshot"])
class TestTheNewestCheckpointHoldsTheConversation:
    def test_it_is_the_one_live_delta_and_the_latest(self, tmp_path: Path, every: int | None) -> None:
        *history, newest = STORE.deltas(stored(tmp_path, every))
        assert len(history) == 1 + TURNS
        assert newest.live and not any(delta.live for delta in history)

    def test_damage_to_it_matters_and_to_history_does_not(self, tmp_path: Path, every: int | None) -> None:
        durable = stored(tmp_path, every)
        whole = messages(durable, every)
        for delta in STORE.deltas(durable):
            copy, data = copied(durable, delta.order), STORE.read(durable, delta)
            assert len(data) == delta.size
            STORE.write(copy, delta, data.replace(b"message 2", b"massage 2"))
            assert (messages(copy, every) != whole) is delta.live, delta

    def test_a_second_one_is_harmless_and_seen(self, tmp_path: Path, every: int | None) -> None:
        durable = stored(tmp_path, every)
        whole, before = messages(durable, every), STORE.deltas(durable)
        STORE.duplicate(durable, before[-1])
        after = STORE.deltas(durable)
        assert len(after) == len(before) + 1 and [delta.live for delta in after[-2:]] == [False, True]
        assert messages(durable, every) == whole

    def test_without_it_the_writes_that_led_to_it_are_pending(self, tmp_path: Path, every: int | None) -> None:
        durable = stored(tmp_path, every)
        STORE.delete(durable, STORE.deltas(durable)[-1])
        if every is None:  # the state of a step before, and the pending write
            *_, snapshot, pending = STORE.deltas(durable)
            assert b"message 5" in STORE.read(durable, snapshot) and b"message 6" not in STORE.read(durable, snapshot)
        else:
            pending = STORE.deltas(durable)[-1]
        assert b"message 6" in STORE.read(durable, pending)
        assert pending.live
        assert messages(durable, every)[-1] == "message 6"


def test_writes_off_the_line_of_the_newest_checkpoint_are_not_live(tmp_path: Path) -> None:
    durable = stored(tmp_path, 100)
    database = connect(durable)
    (cut,) = database.execute(
        "SELECT checkpoint_id FROM checkpoints ORDER BY checkpoint_id LIMIT 1 OFFSET 5"
    ).fetchone()
    with database:
        database.execute("DELETE FROM checkpoints WHERE checkpoint_id = ?", (cut,))
    live = [STORE.read(durable, delta) for delta in STORE.deltas(durable) if delta.live]
    assert 0 < len(live) < 1 + TURNS
    assert [b"".join(live).count(text.encode()) for text in messages(durable, 100)] == [1] * len(live)


@pytest.mark.parametrize("parent", ["", "grandparent"])
def test_exactly_the_live_links_matter(durable: Durable, every: int, parent: str) -> None:
    """A link that leads elsewhere changes what LangGraph reads if and only if the store calls it live."""
    whole, links = messages(durable, every), STORE.links(durable)
    assert len(links) == TURNS + 1 and [link.order for link in links] == list(range(len(links)))
    for link in links[1:]:
        before = STORE.parent(durable, links[link.order - 1])
        copy = copied(durable, link.order)
        STORE.relink(copy, link, before if parent else "")
        assert STORE.parent(copy, link) == (before if parent else "")
        assert len(before) == link.size
        assert (messages(copy, every) != whole) is link.live, link


def test_no_store_has_no_links(tmp_path: Path) -> None:
    assert STORE.links(Durable(tmp_path)) == () and STORE.thread(Durable(tmp_path)) == ""


def test_two_deltas_change_places(durable: Durable, every: int) -> None:
    whole = messages(durable, every)
    one, other = [delta for delta in STORE.deltas(durable) if delta.live][-2:]
    first, second = STORE.read(durable, one), STORE.read(durable, other)
    STORE.swap(durable, one, other)
    assert (STORE.read(durable, one), STORE.read(durable, other)) == (second, first)
    assert messages(durable, every) == [*whole[:-2], whole[-1], whole[-2]]


def test_a_tail_that_is_torn_anywhere_is_one_commit_gone(tmp_path: Path) -> None:
    """As SQLite sees it: whatever is left of the last commit, the database is what it was before it."""
    (tmp_path / "live").mkdir()
    live, images = Durable(tmp_path / "live"), [tmp_path / "before", tmp_path / "after"]
    connection = connect(live)
    thread.run(SqliteSaver(connection), 100)
    for number, image in enumerate(images):
        with connection:
            connection.execute(
                "INSERT INTO writes VALUES ('t', '', 'x', 'y', '', ?, 'c', 'bytes', zeroblob(9000))", (number,)
            )
        shutil.copytree(live.folder, image)
    connection.close()
    tail = STORE.tail(Durable(images[1]))
    assert tail is not None and tail.end == tail.path.stat().st_size > tail.begin + 9000
    before = rows(images[0])
    assert rows(copied(Durable(images[1]), "whole").folder) == [*before, (1,)]
    for offset in [*range(tail.begin, tail.end, 4 * tail.unit), tail.end - 1]:
        copy = copied(Durable(images[1]), offset).folder
        with (copy / "state.db-wal").open("r+b") as log:
            log.truncate(offset)
        assert rows(copy) == before, offset


def rows(folder: Path) -> list[tuple[int]]:
    connection = connect(Durable(folder))
    try:
        return connection.execute("SELECT idx FROM writes WHERE checkpoint_id = 'x' ORDER BY idx").fetchall()
    finally:
        connection.close()


def test_without_a_log_there_is_no_tail(durable: Durable) -> None:
    connection = connect(durable)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    assert STORE.tail(durable) is None
