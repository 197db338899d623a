"""Temporal for real: workflows of their own, what they take up, and what a release leaves."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from chaos.durable import Lease
from chaos.errors import HarnessError
from chaos.servers.temporal import RunningTemporal, Temporal, used_bytes

NAME = "temporal"
PAYLOAD = 50_000
WORKFLOWS = 5
PAGE = 4096  # of SQLite


async def _start(lease: Lease) -> None:
    """Start workflows that no worker takes up: their input is in their history."""
    from temporalio.client import Client

    client = await Client.connect(lease.url)
    for number in range(WORKFLOWS):
        content = os.urandom(PAYLOAD // 2).hex()
        name, queue = f"{lease.space}{number}", f"{lease.space}queue"
        await client.start_workflow("Unknown", content, id=name, task_queue=queue)
    for _ in range(100):
        if len(await _ids(lease)) == WORKFLOWS:
            return
        await asyncio.sleep(0.05)


async def _ids(lease: Lease) -> set[str]:
    from temporalio.client import Client

    client = await Client.connect(lease.url)
    return {found.id async for found in client.list_workflows() if found.id.startswith(lease.space)}


def start(lease: Lease) -> None:
    asyncio.run(_start(lease))


def ids(lease: Lease) -> set[str]:
    return asyncio.run(_ids(lease))


def test_two_leases_do_not_see_each_other(running: RunningTemporal) -> None:
    one, two = running.lease("chaos_1"), running.lease("chaos_11")
    assert running.keep(one) is None  # type: ignore[func-returns-value]
    start(one)
    start(two)
    running.release(one)
    assert ids(one) == set()
    assert ids(two) == {f"chaos_11-{number}" for number in range(WORKFLOWS)}
    running.release(two)
    assert ids(two) == set()
    running.release(two)


def test_what_is_stored_and_written(running: RunningTemporal) -> None:
    lease = running.lease("chaos_sizes")
    start(lease)
    assert WORKFLOWS * PAYLOAD < running.stored_bytes(lease) < 2 * WORKFLOWS * PAYLOAD
    assert running.written_bytes(lease) > WORKFLOWS * PAYLOAD
    running.release(lease)
    after = running.lease("chaos_after")
    assert running.stored_bytes(after) == 0
    running.release(after)


def test_at_an_address_only_what_is_ours_goes(running: RunningTemporal, tmp_path: Path) -> None:
    theirs = running.lease("somebody_s")
    start(theirs)
    ours = Temporal().open(tmp_path, theirs.url)
    lease = ours.lease("chaos_ours")
    assert lease.url == theirs.url and ours.stored_bytes(lease) == 0
    start(lease)
    assert WORKFLOWS * PAYLOAD < ours.stored_bytes(lease) < 1.1 * WORKFLOWS * PAYLOAD
    assert ours.written_bytes(lease) == ours.stored_bytes(lease)
    ours.release(lease)
    ours.close()
    running.release(lease)  # waits for what somebody else's server does when it likes
    assert ids(lease) == set() and len(ids(theirs)) == WORKFLOWS
    running.release(theirs)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_used_bytes_of_a_database_under_a_writer(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "some.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute(f"PRAGMA journal_mode={mode}")
        writer.execute("CREATE TABLE stored (content BLOB)")
        empty = used_bytes(path)
        writer.execute("INSERT INTO stored VALUES (?)", (os.urandom(PAYLOAD),))
        writer.execute("BEGIN IMMEDIATE")
        assert PAYLOAD - PAGE < used_bytes(path) - empty < PAYLOAD + 2 * PAGE
        writer.execute("COMMIT")
        writer.execute("DELETE FROM stored")
        assert used_bytes(path) == empty


def test_what_is_missing_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("temporalio")
    monkeypatch.setenv("PATH", str(tmp_path))
    told = Temporal().missing("")
    assert "`temporal` on the PATH" in told and "--chaos-servers temporal=HOST:PORT" in told
    assert Temporal().missing("somewhere:7233") == ""
    with pytest.raises(HarnessError, match="on the PATH"):
        Temporal().open(tmp_path, "")
    monkeypatch.setitem(sys.modules, "temporalio.client", None)
    assert "pip install 'pytest-chaos[strategies]'" in Temporal().missing("")
