"""The same on a real server, where values have rows of their own, and whole threads may have been pruned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.checkpoint.postgres import PostgresSaver

from chaos.audit import AuditError, audit, threads
from chaos.pool import Pool
from tests.audit.threads import STORIES, given, loop


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    pool = Pool()
    if missing := pool.missing("postgres"):
        pytest.skip(missing)
    try:
        with pool.leases(["postgres"]) as leases:
            yield leases.parts["postgres"].url
    finally:
        pool.close()


@pytest.fixture(scope="module")
def saver(url: str) -> Iterator[PostgresSaver]:
    with pytest.raises(AuditError, match="lacks the tables"):
        threads(url)
    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        yield saver


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@pytest.mark.parametrize("story", STORIES)
def test_a_whole_thread_has_no_damage(url: str, saver: PostgresSaver, story: str) -> None:
    for every, durability in ((None, "sync"), (1, "async"), (3, "exit"), (100, "sync")):
        thread = f"{story} {every} {durability}"
        STORIES[story](every)(saver, config(thread), durability)
        found = audit(url, thread)
        assert [str(one) for one in found.findings] == [], (every, durability)
        assert found.checkpoints > 0


def test_a_pruned_thread_has_none(url: str, saver: PostgresSaver) -> None:
    STORIES["conversation"](None)(saver, config("pruned"), "sync")
    saver.prune(["pruned"], strategy="keep_latest")
    found = audit(url, "pruned")
    assert (found.checkpoints, found.findings) == (1, ())


NEWEST = "(SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = 'damaged')"
MIDDLE = "(SELECT checkpoint_id FROM checkpoints WHERE thread_id = 'damaged' ORDER BY 1 LIMIT 1 OFFSET 4)"
VERSION = f"(SELECT checkpoint -> 'channel_versions' ->> 'items' FROM checkpoints WHERE checkpoint_id = {NEWEST})"
OF = "WHERE thread_id = 'damaged'"


@pytest.mark.parametrize(
    ("every", "command", "finding"),
    [
        (2, f"DELETE FROM checkpoint_blobs {OF} AND channel = 'items'", "missing the snapshot of items"),
        (None, f"DELETE FROM checkpoint_blobs {OF} AND version = {VERSION}", "missing the value of items"),
        (None, f"UPDATE checkpoint_blobs SET blob = '\\xc1' {OF} AND type = 'msgpack'", "undecodable"),
        (None, f"DELETE FROM checkpoints WHERE checkpoint_id = {NEWEST}", "unlinked no checkpoint has this version"),
        (
            100,
            f"DELETE FROM checkpoint_writes {OF} AND checkpoint_id = {MIDDLE} AND channel = 'items'",
            "missing a row",
        ),
        (100, f"DELETE FROM checkpoints WHERE checkpoint_id = {MIDDLE}", "unlinked its parent"),
        (
            100,
            f"UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE checkpoint_id = {MIDDLE}",
            "unlinked it has no",
        ),
        (100, f"UPDATE checkpoint_writes SET blob = '' WHERE checkpoint_id = {MIDDLE}", "undecodable"),
        (
            100,
            f"UPDATE checkpoints SET checkpoint = '[]' WHERE checkpoint_id = {MIDDLE}",
            "undecodable its value is no",
        ),
    ],
)
def test_damage_is_found(url: str, saver: PostgresSaver, every: int | None, command: str, finding: str) -> None:
    saver.delete_thread("damaged")
    loop(saver, every).invoke(given(), config("damaged"), durability="sync")
    saver.conn.execute(command.encode())  # type: ignore[union-attr]
    found = [f"{one.kind} {one.what}" for one in audit(url, "damaged").findings]
    assert any(text.startswith(finding) for text in found), found


def test_a_value_that_is_true_is_no_lost_snapshot(url: str, saver: PostgresSaver) -> None:
    STORIES["parallel"](100)(saver, config("flags"), "sync")  # its `flag` is true
    assert audit(url, "flags").findings == ()


def test_nobody_there_is_told_without_the_password() -> None:
    with pytest.raises(AuditError, match=r"^postgresql://me:\*\*\*@127.0.0.1:1/x: ") as error:
        threads("postgresql://me:secret@127.0.0.1:1/x")
    assert "secret" not in str(error.value)
