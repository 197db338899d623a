"""The store's view of a workflow in PostgreSQL agrees with what DBOS itself reads back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.durable import Durable
from chaos.pool import Pool
from chaos.stores.dbos_postgres import DbosPostgres
from tests.stores import workflow
from tests.stores.workflow import STEPS

pytest.importorskip("dbos", reason="pip install 'pytest-chaos[strategies]'")

STORE = DbosPostgres()


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    pool = Pool()
    if missing := pool.missing("postgres"):
        pytest.skip(missing)
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def empty(pool: Pool) -> Iterator[Durable]:
    with pool.leases(["postgres"]) as leases:
        yield Durable(Path("/nonexistent"), leases.parts)


@pytest.fixture(scope="module")
def written(pool: Pool) -> Iterator[Durable]:
    with pool.leases(["postgres"]) as leases:
        workflow.run(leases.parts["postgres"].url)
        yield Durable(Path("/nonexistent"), leases.parts)


@pytest.fixture
def durable(written: Durable) -> Iterator[Durable]:
    """Return the workflow's records, and put them back in the end."""
    import psycopg

    with psycopg.connect(written.leases["postgres"].url) as database:
        database.execute("CREATE TABLE kept AS SELECT * FROM dbos.operation_outputs")
    yield written
    with psycopg.connect(written.leases["postgres"].url) as database:
        database.execute("DELETE FROM dbos.operation_outputs")
        database.execute("INSERT INTO dbos.operation_outputs SELECT * FROM kept")
        database.execute("DROP TABLE kept")


def read_back(durable: Durable) -> dict[int, Any]:
    return workflow.outputs(durable.leases["postgres"].url)


def test_no_store_has_no_deltas(empty: Durable) -> None:
    assert STORE.deltas(empty) == ()


def test_every_step_is_one_delta(durable: Durable) -> None:
    deltas = STORE.deltas(durable)
    assert [delta.row for delta in deltas] == sorted(read_back(durable)) and len(deltas) == STEPS
    assert all(delta.live and delta.size == len(STORE.read(durable, delta)) for delta in deltas)


def test_a_copied_record_is_read_in_its_new_place(durable: Durable) -> None:
    deltas = STORE.deltas(durable)
    STORE.write(durable, deltas[0], STORE.read(durable, deltas[3]))
    assert [output["number"] for output in read_back(durable).values()] == [3, 1, 2, 3, 4]


def test_bytes_that_are_no_text_make_the_record_unreadable(durable: Durable) -> None:
    deltas = STORE.deltas(durable)
    data = STORE.read(durable, deltas[2])
    STORE.write(durable, deltas[2], data[:7] + b"\xe1\0" + data[9:])
    assert STORE.read(durable, deltas[2]).decode() == f"{data[:7].decode()}\ufffd\ufffd{data[9:].decode()}"
    assert isinstance(read_back(durable)[deltas[2].row], str)


def test_delete(durable: Durable) -> None:
    delta = STORE.deltas(durable)[2]
    STORE.delete(durable, delta)
    assert [output["number"] for output in read_back(durable).values()] == [0, 1, 3, 4]
    assert STORE.read(durable, delta) == b""


@pytest.mark.parametrize("order", [0, 2, STEPS - 1])
def test_a_duplicate_moves_all_later_steps_up(durable: Durable, order: int) -> None:
    STORE.duplicate(durable, STORE.deltas(durable)[order])
    read = read_back(durable)
    numbers = list(range(STEPS))
    assert [output["number"] for output in read.values()] == [*numbers[: order + 1], *numbers[order:]]
    assert list(read) == list(range(1, STEPS + 2)), "no gap"
