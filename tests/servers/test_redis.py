"""Redis for real: prefixes, what keys take up on the disk, and what a release leaves."""

from __future__ import annotations

import os
import subprocess
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
from chaos.targets.reference import redis_history

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


# -- kept and put back


def contents(lease: Lease) -> dict[bytes, tuple[object, bool]]:
    """Return every key of the lease with its value and whether it expires."""
    found = dict[bytes, tuple[object, bool]]()
    with connected(lease) as client:
        read = {
            b"string": client.get, b"hash": client.hgetall, b"set": client.smembers, b"stream": client.xrange,
            b"list": lambda key: client.lrange(key, 0, -1), b"zset": lambda key: client.zrange(key, 0, -1, False, True),
        }  # fmt: skip
        for key in client.keys(f"{lease.space}*"):
            found[key] = read[client.type(key)](key), client.pttl(key) > 0
    return found


def write_all(lease: Lease, mark: str) -> None:
    """Have a key of every kind, each with *mark* in it."""
    with connected(lease) as client:
        name = f"{lease.space}%s".__mod__
        client.set(name("text"), mark)
        client.set(name("short"), mark, px=600_000)
        client.hset(name("hash"), mapping={"one": mark, "two": "x"})
        client.sadd(name("set"), mark, "member")
        client.zadd(name("sorted"), {mark: 1, "b": 2})
        client.xadd(name("stream"), {"field": mark})
        client.rpush(name("list"), mark, b"\0\r\n", "")
        client.set(name(f"only {mark}"), "here")


def test_every_kind_of_key_is_put_back(running: RunningRedis) -> None:
    lease, other = running.lease("chaos_kinds"), running.lease("chaos_kinds2")
    empty = running.keep(lease)
    write_all(other, "other")
    write_all(lease, "first")
    kept, before, others = running.keep(lease), contents(lease), contents(other)
    written = running.written_bytes(lease)
    write_all(lease, "second")
    with connected(lease) as client:
        client.persist(f"{lease.space}short")
        client.expire(f"{lease.space}hash", 600)
    later, after = running.keep(lease), contents(lease)
    assert len({empty.digest, kept.digest, later.digest}) == 3
    for wanted, had in ((kept, before), (empty, {}), (later, after), (kept, before)):
        running.put_back(lease, wanted)
        assert contents(lease) == had
        assert running.keep(lease).digest == wanted.digest
    assert running.written_bytes(lease) == written
    with connected(lease) as client:
        assert 0 < client.pttl(f"{lease.space}short") <= 600_000
    assert contents(other) == others
    for one in (lease, other):
        running.release(one)


def test_a_list_that_grows_is_kept_once(running: RunningRedis) -> None:
    """What instants share is shared, and a list that was written anew is noticed though it is longer."""
    lease = running.lease("chaos_grows")
    key, entries, kept = f"{lease.space}list", list[bytes](), []
    with connected(lease) as client:
        for number in range(30):
            entries.append(b"%d" % number + os.urandom(500))
            client.rpush(key, entries[-1])
            kept.append(running.keep(lease))
        values = [one.keys[key.encode()].value for one in kept]  # type: ignore[attr-defined]
        assert all(len(value.new) == 1 for value in values)
        client.lset(key, 3, b"changed")
        client.rpush(key, b"and grown")
        changed = running.keep(lease)
        assert len(changed.keys[key.encode()].value.new) == 31  # type: ignore[attr-defined]
        for length in (30, 7, 1, 30):
            running.put_back(lease, kept[length - 1])
            assert client.lrange(key, 0, -1) == entries[:length]
        running.put_back(lease, changed)
        assert client.lrange(key, 0, -1) == [*entries[:3], b"changed", *entries[4:], b"and grown"]
    running.release(lease)


def test_a_transaction_that_a_killed_client_left_open_is_not_in_it(running: RunningRedis) -> None:
    lease = running.lease("chaos_open")
    code = f"""
import redis, sys
client = redis.Redis.from_url({lease.url!r})
client.set({lease.space!r} + "done", 1)
client.execute_command("MULTI")
client.execute_command("SET", {lease.space!r} + "open", 1)
print("stands", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as agent:
        assert agent.stdout and agent.stdout.readline() == "stands\n"
        kept = running.keep(lease)
        agent.kill()
    running.put_back(lease, kept)
    assert list(contents(lease)) == [f"{lease.space}done".encode()]
    running.release(lease)


def test_a_history_goes_on_from_it(running: RunningRedis) -> None:
    lease = running.lease("chaos_history")
    thread = "thread"
    log = redis_history.Entries(lease, thread)
    for number in range(5):
        log.append(b"step %d" % number)
    kept, real = running.keep(lease), redis_history.lines(lease)
    log.append(b"after the instant")
    running.put_back(lease, kept)
    assert redis_history.lines(lease) == real
    redis_history.Entries(lease, thread).append(b"step 5")
    assert redis_history.lines(lease) == [*real, b"step 5"]
    running.release(lease)
