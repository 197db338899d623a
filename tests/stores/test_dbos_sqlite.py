"""The store's view of a workflow in SQLite agrees with what DBOS itself reads back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from chaos.durable import Durable
from chaos.stores.dbos_sqlite import DATABASE, DbosSqlite
from tests.stores import workflow
from tests.stores.workflow import STEPS

pytest.importorskip("dbos", reason="pip install 'pytest-chaos[strategies]'")

STORE = DbosSqlite()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dbos")
    workflow.run(f"sqlite:///{folder / DATABASE}")
    return folder


@pytest.fixture
def durable(written: Path, tmp_path: Path) -> Durable:
    """Return a copy of what the workflow has written."""
    return Durable(shutil.copytree(written, tmp_path / "durable"))


def read_back(durable: Durable) -> dict[int, Any]:
    return workflow.outputs(f"sqlite:///{durable.folder / DATABASE}")


def test_no_store_has_no_deltas(tmp_path: Path) -> None:
    assert STORE.deltas(Durable(tmp_path)) == ()
    (tmp_path / DATABASE).touch()  # killed before there are tables
    assert STORE.deltas(Durable(tmp_path)) == ()


def test_every_step_is_one_delta(durable: Durable) -> None:
    deltas = STORE.deltas(durable)
    assert [delta.row for delta in deltas] == sorted(read_back(durable)) and len(deltas) == STEPS
    assert all(delta.live and delta.size == len(STORE.read(durable, delta)) for delta in deltas)


def test_a_copied_record_is_read_in_its_new_place(durable: Durable) -> None:
    deltas = STORE.deltas(durable)
    STORE.write(durable, deltas[0], STORE.read(durable, deltas[3]))
    assert [output["number"] for output in read_back(durable).values()] == [3, 1, 2, 3, 4]


def test_bytes_that_are_no_text_are_kept(durable: Durable) -> None:
    delta = STORE.deltas(durable)[2]
    STORE.write(durable, delta, b"\xff\x00A")
    assert STORE.read(durable, delta) == b"\xff\x00A"


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
