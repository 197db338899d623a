"""The store's view of a workflow agrees with what the running Temporal server itself reads back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest

from chaos.durable import Durable, Lease
from chaos.pool import Pool
from chaos.stores.temporal_sqlite import TemporalSqlite

pytest.importorskip("temporalio", reason="pip install 'pytest-chaos[strategies]'")

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.service import RetryConfig, RPCError
from temporalio.worker import Worker

STEPS = 5
STORE = TemporalSqlite()
AT_ONCE = RetryConfig(max_retries=1)  # the server answers that it is unavailable where its history is damaged


@activity.defn
async def step(number: int) -> dict[str, int]:
    return {"number": number}


@workflow.defn(sandboxed=False)
class Counting:
    @workflow.run
    async def run(self) -> None:
        for number in range(STEPS):
            await workflow.execute_activity(step, number, start_to_close_timeout=timedelta(minutes=1))


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    pool = Pool()
    if missing := pool.missing("temporal"):
        pytest.skip(missing)
    yield pool
    pool.close()


@pytest.fixture
def durable(pool: Pool, tmp_path: Path) -> Iterator[Durable]:
    """Return where a workflow has run to its end, beside another one that has not begun."""
    with pool.leases(["temporal"]) as other, pool.leases(["temporal"]) as leases:
        asyncio.run(run(other.parts["temporal"], begin=False))
        asyncio.run(run(leases.parts["temporal"], begin=True))
        yield Durable(tmp_path, leases.parts)


async def run(lease: Lease, begin: bool) -> None:
    client = await Client.connect(lease.url)
    handle = await client.start_workflow(Counting.run, id=f"{lease.space}w", task_queue=lease.space)
    if begin:
        async with Worker(client, task_queue=lease.space, workflows=[Counting], activities=[step]):
            await handle.result()


def results(durable: Durable) -> list[bytes]:
    """Return the results of the activities, as the server reads them."""
    return asyncio.run(_results(durable.leases["temporal"]))


async def _results(lease: Lease) -> list[bytes]:
    client = await Client.connect(lease.url, retry_config=AT_ONCE)
    events = (await client.get_workflow_handle(f"{lease.space}w").fetch_history()).events
    completed = [event.activity_task_completed_event_attributes for event in events]
    return [attributes.result.payloads[0].data for attributes in completed if attributes.HasField("result")]


def numbers(durable: Durable) -> list[int]:
    return [json.loads(result)["number"] for result in results(durable)]


def test_no_server_of_ours_has_no_deltas(tmp_path: Path) -> None:
    assert STORE.deltas(Durable(tmp_path)) == ()
    assert STORE.deltas(Durable(tmp_path, {"temporal": Lease("somewhere:7233", "x-")})) == ()


def test_no_workflow_has_no_deltas(pool: Pool, tmp_path: Path) -> None:
    with pool.leases(["temporal"]) as leases:
        assert STORE.deltas(Durable(tmp_path, leases.parts)) == ()


def test_the_server_works_on_while_it_is_looked_at(pool: Pool, tmp_path: Path) -> None:
    """A lock of ours in the middle of its commit would stop it for good."""
    with pool.leases(["temporal"]) as leases:
        durable, seen = Durable(tmp_path, leases.parts), set()
        worker = Thread(target=lambda: asyncio.run(run(durable.leases["temporal"], begin=True)))
        worker.start()
        while worker.is_alive():
            seen.add(len(STORE.deltas(durable)))
        assert seen <= set(range(STEPS + 1)) and len(seen) > 1
        assert numbers(durable) == list(range(STEPS))


def test_every_result_is_in_one_delta(durable: Durable) -> None:
    deltas, expected = STORE.deltas(durable), results(durable)
    assert len(deltas) == len(expected) == STEPS
    for delta, result in zip(deltas, expected, strict=True):
        data = STORE.read(durable, delta)
        assert delta.live and delta.size == len(data) and data.count(result) == 1


def test_the_server_reads_what_was_written(durable: Durable) -> None:
    delta = STORE.deltas(durable)[2]
    data = STORE.read(durable, delta)
    assert numbers(durable)[2] == 2
    STORE.write(durable, delta, data.replace(b'{"number":2}', b'{"number":7}'))
    assert numbers(durable) == [0, 1, 7, 3, 4]
    STORE.write(durable, delta, data)
    assert numbers(durable) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("order", [0, 2, STEPS - 1])
def test_the_server_refuses_a_history_with_a_gap(durable: Durable, order: int) -> None:
    delta = STORE.deltas(durable)[order]
    STORE.delete(durable, delta)
    assert STORE.read(durable, delta) == b"" and len(STORE.deltas(durable)) == STEPS - 1
    with pytest.raises(RPCError):
        results(durable)


@pytest.mark.parametrize("order", [0, 2, STEPS - 1])
def test_the_server_refuses_a_second_node(durable: Durable, order: int) -> None:
    delta = STORE.deltas(durable)[order]
    STORE.duplicate(durable, delta)
    deltas = STORE.deltas(durable)
    copies = [STORE.read(durable, each) for each in deltas[order : order + 2]]
    assert len(deltas) == STEPS + 1 and copies == [STORE.read(durable, delta)] * 2
    with pytest.raises(RPCError):
        results(durable)
    STORE.delete(durable, deltas[order + 1])
    assert numbers(durable) == list(range(STEPS))


def test_what_cannot_be_parsed_is_still_a_delta(durable: Durable) -> None:
    deltas = STORE.deltas(durable)
    STORE.write(durable, deltas[1], b"\xff")
    assert STORE.deltas(durable) == (deltas[0], replace(deltas[1], size=1), *deltas[2:])
    with pytest.raises(RPCError):
        results(durable)
