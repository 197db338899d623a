"""The store's view of a thread on a real server agrees with what LangGraph itself reads back."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver

from chaos.durable import Durable
from chaos.pool import Pool
from chaos.stores.langgraph_postgres import LanggraphPostgres
from tests.stores import thread
from tests.stores.thread import TURNS

STORE = LanggraphPostgres()


@pytest.fixture(scope="module")
def durable() -> Iterator[Durable]:
    pool = Pool()
    if missing := pool.missing("postgres"):
        pytest.skip(missing)
    try:
        with pool.leases(["postgres"]) as leases:
            yield Durable(Path("/nonexistent"), leases.parts)
    finally:
        pool.close()


def execute(durable: Durable, command: str) -> None:
    with psycopg.connect(durable.leases["postgres"].url) as connection:
        connection.execute(command.encode())


def messages(durable: Durable, every: int | None) -> list[str]:
    with PostgresSaver.from_conn_string(durable.leases["postgres"].url) as saver:
        return thread.messages(saver, every)


def store_anew(durable: Durable, every: int | None) -> None:
    """Have the thread in the database, and nothing else."""
    execute(durable, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    with PostgresSaver.from_conn_string(durable.leases["postgres"].url) as saver:
        saver.setup()
        thread.run(saver, every)


def test_no_store_has_no_deltas(durable: Durable) -> None:
    execute(durable, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    assert STORE.deltas(durable) == ()


@pytest.mark.parametrize("every", [3, 100])
def test_exactly_the_live_deltas_matter(durable: Durable, every: int) -> None:
    """Deleting a delta changes what LangGraph reads if and only if the store calls it live."""
    store_anew(durable, every)
    whole, deltas = messages(durable, every), STORE.deltas(durable)
    assert len(deltas) == 1 + TURNS
    assert sum(delta.live for delta in deltas) == (8 % 3 if every == 3 else 8)
    execute(durable, "CREATE TABLE kept AS TABLE checkpoint_writes")
    for delta in deltas:
        STORE.delete(durable, delta)
        assert (messages(durable, every) != whole) is delta.live, delta
        assert len(STORE.deltas(durable)) == len(deltas) - 1
        execute(durable, "TRUNCATE checkpoint_writes; INSERT INTO checkpoint_writes TABLE kept")


def test_write_and_read_back(durable: Durable) -> None:
    store_anew(durable, 100)
    first, second, *_ = STORE.deltas(durable)
    untouched = STORE.read(durable, second)
    STORE.write(durable, first, b"\x91\xa3new")
    assert STORE.read(durable, first) == b"\x91\xa3new"
    assert messages(durable, 100)[0] == "new"
    STORE.delete(durable, first)
    assert STORE.read(durable, first) == b""
    assert STORE.read(durable, second) == untouched != b""


def test_a_duplicate_is_read_twice(durable: Durable) -> None:
    store_anew(durable, 100)
    whole = messages(durable, 100)
    STORE.duplicate(durable, STORE.deltas(durable)[3])
    assert messages(durable, 100) == [*whole[:4], *whole[3:]]


@pytest.mark.parametrize("every", [None, 4], ids=["stored whole", "a delta channel at its snapshot"])
class TestTheNewestCheckpointHoldsTheConversation:
    def test_it_is_the_one_live_delta_and_the_latest(self, durable: Durable, every: int | None) -> None:
        store_anew(durable, every)
        *history, newest = STORE.deltas(durable)
        assert len(history) == 1 + TURNS
        assert newest.live and not any(delta.live for delta in history)

    def test_damage_to_it_matters_and_to_history_does_not(self, durable: Durable, every: int | None) -> None:
        store_anew(durable, every)
        for delta in STORE.deltas(durable):
            data = STORE.read(durable, delta)
            assert len(data) == delta.size
            STORE.write(durable, delta, data.replace(b"message 2", b"massage 2"))
            assert ("massage 2" in messages(durable, every)) is delta.live, delta

    def test_a_second_one_is_harmless_and_seen(self, durable: Durable, every: int | None) -> None:
        store_anew(durable, every)
        whole, before = messages(durable, every), STORE.deltas(durable)
        STORE.duplicate(durable, before[-1])
        after = STORE.deltas(durable)
        assert len(after) == len(before) + 1 and [delta.live for delta in after[-2:]] == [False, True]
        assert messages(durable, every) == whole


def test_a_lost_conversation_is_added_up_from_the_writes(durable: Durable) -> None:
    store_anew(durable, None)
    whole = messages(durable, None)
    STORE.delete(durable, STORE.deltas(durable)[-1])
    assert messages(durable, None) == whole


@pytest.mark.xfail(strict=True, reason="langgraph-checkpoint-postgres 3.2.0 takes the mark of a snapshot for its value")
def test_a_lost_snapshot_is_no_conversation(durable: Durable) -> None:
    store_anew(durable, 4)
    STORE.delete(durable, STORE.deltas(durable)[-1])
    assert messages(durable, 4) is not True


def test_a_write_without_a_checkpoint_is_live_and_the_latest(durable: Durable) -> None:
    store_anew(durable, None)
    execute(durable, "DELETE FROM checkpoints WHERE checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints)")
    *history, snapshot, pending = STORE.deltas(durable)
    assert snapshot.live and pending.live and not any(delta.live for delta in history)
    assert b"message 5" in STORE.read(durable, snapshot) and b"message 6" not in STORE.read(durable, snapshot)
    assert b"message 6" in STORE.read(durable, pending)


def test_writes_off_the_line_of_the_newest_checkpoint_are_not_live(durable: Durable) -> None:
    store_anew(durable, 100)
    cut = "(SELECT checkpoint_id FROM checkpoints ORDER BY checkpoint_id LIMIT 1 OFFSET 5)"
    execute(durable, f"DELETE FROM checkpoints WHERE checkpoint_id = {cut}")
    live = [STORE.read(durable, delta) for delta in STORE.deltas(durable) if delta.live]
    assert 0 < len(live) < 1 + TURNS
    assert [b"".join(live).count(text.encode()) for text in messages(durable, 100)] == [1] * len(live)


@pytest.mark.parametrize("every", [3, 100])
def test_exactly_the_live_links_matter(durable: Durable, every: int) -> None:
    store_anew(durable, every)
    whole, links = messages(durable, every), STORE.links(durable)
    assert len(links) == TURNS + 1
    for link in links:
        parent = STORE.parent(durable, link)
        assert len(parent) == link.size
        STORE.relink(durable, link, "")
        assert STORE.parent(durable, link) == ""
        assert (messages(durable, every) != whole) is link.live, link
        STORE.relink(durable, link, parent)
    assert messages(durable, every) == whole
    assert STORE.thread(durable) == durable.leases["postgres"].url
