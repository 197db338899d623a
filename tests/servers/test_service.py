"""Servers of ours that are killed and started again: the same place, everything that was acknowledged, new numbers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos import registry
from chaos.errors import HarnessError
from chaos.pool import Leases, Pool
from chaos.servers import Running

NAMES = [
    pytest.param(name, marks=pytest.mark.skipif(bool(missing), reason=missing))
    for name in registry.names("servers")
    for missing in [registry.load("servers", name)().missing("")]
]


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    made = Pool()
    yield made
    made.close()


def kept(name: str, leases: Leases) -> tuple[Any, Any]:
    """Return how to write one value into the lease, and how to read all of them."""
    lease = leases.parts[name]
    if name == "redis":
        import redis

        def write(value: int) -> None:
            with redis.Redis.from_url(lease.url) as client:
                client.rpush(f"{lease.space}x", value)

        def read() -> list[int]:
            with redis.Redis.from_url(lease.url) as client:
                return [int(value) for value in client.lrange(f"{lease.space}x", 0, -1)]

        return write, read

    if name == "temporal":
        return _workflows(lease.url, lease.space)

    import psycopg

    with psycopg.connect(lease.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE x (value int)")

    def insert(value: int) -> None:
        with psycopg.connect(lease.url, autocommit=True) as connection:
            connection.execute("INSERT INTO x VALUES (%s)", (value,))

    def select() -> list[int]:
        with psycopg.connect(lease.url, autocommit=True) as connection:
            return [value for (value,) in connection.execute("SELECT value FROM x ORDER BY value")]

    return insert, select


def _workflows(address: str, prefix: str) -> tuple[Any, Any]:
    """Values as workflows that were started and that nobody works on."""
    from temporalio.client import Client

    async def start(value: int) -> None:
        client = await Client.connect(address)
        await client.start_workflow("nothing", id=f"{prefix}{value}", task_queue=f"{prefix}queue")

    async def there(value: int) -> bool:
        client = await Client.connect(address)
        return (await client.get_workflow_handle(f"{prefix}{value}").describe()).id == f"{prefix}{value}"

    return (
        lambda value: asyncio.run(start(value)),
        lambda: [value for value in (1, 2) if asyncio.run(there(value))],
    )


@pytest.mark.parametrize("name", NAMES)
def test_killed_and_back(name: str, pool: Pool) -> None:
    with pool.leases((name,)) as leases:
        running: Running = leases.running[name]
        assert running.service is not None and not running.service.away
        write, read = kept(name, leases)
        write(1)
        stored, written = leases.stored_bytes(), leases.written_bytes()
        pid, status = running.service.kill()
        assert status == -signal.SIGKILL and not Path(f"/proc/{pid}").exists()
        assert running.service.away
        assert (leases.stored_bytes(), leases.written_bytes()) == (stored, written), "as it said last"
        new, seconds = running.service.restart()
        assert new != pid and seconds > 0 and Path(f"/proc/{new}").exists()
        assert running.service.restart() == (new, 0.0), "once is enough"
        write(2)
        assert read() == [1, 2], "what was acknowledged is there"
        running.service.await_back()
        assert leases.written_bytes() >= written


@pytest.mark.parametrize("name", [name for name in NAMES if name.values[0] == "redis"])
def test_a_server_that_stays_away_is_a_harness_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from chaos.servers import _daemon

    pool = Pool()
    with pytest.raises(HarnessError), pool.leases((name,)) as leases:
        service = leases.running[name].service
        assert service is not None
        service.kill()
        monkeypatch.setattr(_daemon, "READY_SECONDS", 0.05)
        with pytest.raises(HarnessError, match="was killed and is not back"):
            leases.await_back()
    pool.close()


def test_somebody_s_server_has_no_process_of_ours(pool: Pool) -> None:
    if registry.load("servers", "redis")().missing(""):
        pytest.skip("no Redis server")
    with pool.leases(("redis",)) as leases:
        theirs = Pool({"redis": leases.parts["redis"].url})
        with theirs.leases(("redis",)) as other:
            assert other.running["redis"].service is None
            other.await_back()
        theirs.close()
