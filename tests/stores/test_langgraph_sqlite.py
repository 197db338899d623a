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
