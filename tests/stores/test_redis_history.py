"""Both forms of a history on a Redis server as a list of deltas, on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.durable import Durable
from chaos.pool import Pool
from chaos.stores.redis_history import RedisHistory

entries = st.lists(st.binary(min_size=1, max_size=20).filter(lambda line: b"\n" not in line), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def durable() -> Iterator[Durable]:
    with closing(Pool()) as pool:
        if missing := pool.missing("redis"):
            pytest.skip(missing)
        with pool.leases(("redis",)) as leases:
            yield Durable(Path("/nonexistent"), leases.parts)


@pytest.fixture(scope="module")
def client(durable: Durable) -> Iterator[Any]:
    import redis

    with redis.Redis.from_url(durable.leases["redis"].url) as client:
        yield client


def put(client: Any, durable: Durable, form: str, content: list[bytes]) -> str:
    """Store *content* in one of the two forms and return its key."""
    key = f"{durable.leases['redis'].space}history:chaos-thread"
    client.delete(key)
    if form == "list":
        client.rpush(key, *content)
    else:
        client.set(key, b"".join(line + b"\n" for line in content))
    return key


def seen(client: Any, key: str, form: str) -> list[bytes]:
    if form == "list":
        return list(client.lrange(key, 0, -1))
    return list(client.get(key).split(b"\n")[:-1])


def test_no_history_has_no_deltas(durable: Durable, client: Any) -> None:
    client.set("history:chaos-thread", "another one's")  # without our prefix
    client.delete(f"{durable.leases['redis'].space}history:chaos-thread")
    assert RedisHistory().deltas(durable) == ()
    assert client.get("history:chaos-thread") == b"another one's"


@pytest.mark.parametrize("form", ["list", "value"])
@given(content=entries, data=st.data())
@settings(max_examples=15, deadline=None)
def test_each_operation_changes_one_entry(
    durable: Durable, client: Any, form: str, content: list[bytes], data: st.DataObject
) -> None:
    store = RedisHistory()
    key = put(client, durable, form, content)
    deltas = store.deltas(durable)
    assert [(delta.order, delta.size, delta.live) for delta in deltas] == [
        (order, len(entry), True) for order, entry in enumerate(content)
    ]
    delta = data.draw(st.sampled_from(deltas))
    at = delta.row

    assert store.read(durable, delta) == content[at]
    store.write(durable, delta, b"other")
    assert seen(client, key, form) == [*content[:at], b"other", *content[at + 1 :]]
    put(client, durable, form, content)
    store.duplicate(durable, delta)
    assert seen(client, key, form) == content[: at + 1] + content[at:]
    put(client, durable, form, content)
    store.delete(durable, delta)
    if len(content) > 1 or form == "value":
        assert seen(client, key, form) == content[:at] + content[at + 1 :]
        assert client.type(key) == {"list": b"list", "value": b"string"}[form]
    assert len(store.deltas(durable)) == len(content) - 1
    assert store.read(durable, deltas[-1]) == b"" or at != len(content) - 1


def test_a_server_that_comes_back_with_a_torn_tail_lacks_the_last_command(tmp_path: Path) -> None:
    import redis

    with closing(Pool()) as pool:
        if missing := pool.missing("redis"):
            pytest.skip(missing)
        with pool.leases(("redis",)) as leases:
            durable = Durable(tmp_path, leases.parts)
            service = leases.running["redis"].service
            assert service is not None
            for left in (3, 2, 1):
                with redis.Redis.from_url(durable.leases["redis"].url) as client:
                    key = put(client, durable, "list", [b"one", b"two"])
                    client.rpush(key, b"th\r\nree")
                tail = RedisHistory().tail(durable)
                assert tail is not None and tail.end == tail.path.stat().st_size
                assert tail.path.read_bytes()[tail.begin :].startswith(b"*3\r\n$5\r\nRPUSH\r\n")
                service.kill()
                with tail.path.open("r+b") as log:
                    log.truncate(tail.end - left if left > 1 else tail.begin + 1)
                service.restart()
                assert [RedisHistory().read(durable, delta) for delta in RedisHistory().deltas(durable)] == [
                    b"one",
                    b"two",
                ]
