"""Redis for real: prefixes, what keys take up on the disk, and what a release leaves."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chaos.durable import Lease
from chaos.errors import HarnessError
from chaos.servers.redis import Redis, RunningRedis

NAME = "redis"
ENTRY = 50_000
PAGE = 4096


@contextmanager
def connected(lease: Lease) -> Iterator[Any]:
    import redis

    with redis.Redis.from_url(lease.url) as client:
        yield client


def rewritten(lease: Lease, folder: Path) -> int:
    """Have the log rewritten and return its size."""
    with connected(lease) as client:
        before = client.info()["aof_rewrites"]
        client.bgrewriteaof()
        while client.info()["aof_rewrites"] == before or client.info()["aof_rewrite_in_progress"]:
            time.sleep(0.02)
    return sum(path.stat().st_size for path in (folder / "server" / "appendonlydir").glob("*.rdb"))


@pytest.mark.parametrize("way", ["append", "rewrite", "compressible", "small"])
def test_stored_is_what_a_rewritten_log_takes(running: RunningRedis, folder: Path, way: str) -> None:
    """To 8 bytes: the number of the database and of its keys is written once for all leases."""
    lease = running.lease(f"chaos_{way}")
    empty = rewritten(lease, folder)
    with connected(lease) as client:
        for number in range(20):
            if way == "append":
                client.rpush(f"{lease.space}history", os.urandom(ENTRY))
            elif way == "rewrite":
                client.set(f"{lease.space}history", os.urandom(ENTRY * (number + 1)))
            elif way == "compressible":
                client.rpush(f"{lease.space}history", b"again" * (ENTRY // 5))
            else:
                client.set(f"{lease.space}{number}", f"value {number}")
    stored = running.stored_bytes(lease)
    if way in ("append", "rewrite"):
        assert 20 * ENTRY < stored < 20.1 * ENTRY
    assert stored <= rewritten(lease, folder) - empty <= stored + 8
    running.release(lease)


def test_written_is_what_went_into_the_log(running: RunningRedis) -> None:
    """Appending writes every entry once, rewriting the whole writes 1 + 2 + ... + n of them."""
    written = {}
    for way in ("append", "rewrite"):
        lease = running.lease(f"chaos_{way}")
        assert running.written_bytes(lease) == 0
        with connected(lease) as client:
            for number in range(20):
                if way == "append":
                    client.rpush(f"{lease.space}history", os.urandom(ENTRY))
                else:
                    client.set(f"{lease.space}history", os.urandom(ENTRY * (number + 1)))
        written[way] = running.written_bytes(lease)
        running.release(lease)
    if written["append"] == 0:
        pytest.skip("the temporary folder is in memory: nothing is written to a disk")
    assert 20 * ENTRY < written["append"] < 20 * (ENTRY + 3 * PAGE)
    assert 210 * ENTRY < written["rewrite"] < 210 * ENTRY + 20 * 3 * PAGE


def test_two_leases_do_not_see_each_other(running: RunningRedis) -> None:
    one, two = running.lease("chaos_1"), running.lease("chaos_11")
    with connected(one) as client:
        client.set(f"{one.space}key", "first")
        client.set(f"{two.space}key", "second")
        running.release(one)
        assert client.keys("*") == [f"{two.space}key".encode()]
        running.release(two)
        assert client.keys("*") == []
        running.release(two)


def test_it_is_durable_and_local(running: RunningRedis) -> None:
    lease = running.lease("chaos_settings")
    with connected(lease) as client:
        settings = client.config_get("append*", "save", "bind")
    assert (settings["appendonly"], settings["appendfsync"], settings["save"]) == ("yes", "always", "")
    assert settings["bind"] == "127.0.0.1"


def test_at_an_address_only_what_is_ours_goes(running: RunningRedis, tmp_path: Path) -> None:
    address = running.lease("chaos_address").url.removeprefix("redis://").removesuffix("/0")
    ours = Redis().open(tmp_path, address)
    lease = ours.lease("chaos_ours")
    assert lease.url == f"redis://{address}"
    with connected(lease) as client:
        client.set("theirs", "kept")
        client.mset({f"{lease.space}{number}": "x" * 100 for number in range(3000)})  # more than one SCAN looks at
        assert 3000 * 100 < ours.written_bytes(lease) < 3000 * 200
        assert 0 < ours.stored_bytes(lease) < 3000 * 150
        ours.release(lease)
        ours.close()
        assert client.keys("*") == [b"theirs"]
        client.delete("theirs")
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    told = Redis().missing("")
    assert "apt-get install redis-server" in told and "--chaos-servers redis=redis://" in told
    assert Redis().missing("redis://somewhere") == ""
    with pytest.raises(HarnessError, match="apt-get install redis-server"):
        Redis().open(tmp_path, "")
    monkeypatch.setitem(sys.modules, "redis", None)
    assert "pip install 'pytest-chaos[strategies]'" in Redis().missing("")
