"""The store's view of an execution agrees with what AWS's local runner itself reads back."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.durable import Durable
from chaos.stores.aws_sqlite import DATABASE, AwsSqlite

pytest.importorskip("aws_durable_execution_sdk_python_testing", reason="pip install 'pytest-chaos[strategies]'")

STEPS = 4
STORE = AwsSqlite()

PROGRAM = f"""
import sys
from aws_durable_execution_sdk_python.execution import durable_execution
from aws_durable_execution_sdk_python_testing.runner import DurableFunctionTestRunner
from aws_durable_execution_sdk_python_testing.stores.sqlite import SQLiteExecutionStore

@durable_execution
def handler(event, context):
    for number in range({STEPS}):
        context.step(lambda _: '"Operations": [' + f"é {{number}}", name=f"step {{number}}")

store = SQLiteExecutionStore.create_and_initialize(sys.argv[1])
with DurableFunctionTestRunner(handler, store=store) as runner:
    runner.run('{{"goal": "\\\\"Operations\\\\": [" }}')
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("aws")
    subprocess.run([sys.executable, "-c", PROGRAM, folder / DATABASE], check=True, timeout=60)
    return folder


@pytest.fixture
def durable(written: Path, tmp_path: Path) -> Durable:
    """Return a copy of what the execution has written."""
    return Durable(shutil.copytree(written, tmp_path / "durable"))


def steps(durable: Durable) -> list[tuple[str, str]]:
    """Return name and result of the steps, as the runner reads them."""
    from aws_durable_execution_sdk_python_testing.stores.sqlite import SQLiteExecutionStore

    with closing(sqlite3.connect(durable.folder / DATABASE)) as database:
        (arn,) = database.execute("SELECT durable_execution_arn FROM executions").fetchone()
    execution = SQLiteExecutionStore(durable.folder / DATABASE).load(arn)
    return [(str(each.name), str(each.step_details.result)) for each in execution.operations if each.step_details]


def test_no_store_has_no_deltas(tmp_path: Path) -> None:
    assert STORE.deltas(Durable(tmp_path)) == ()
    (tmp_path / DATABASE).touch()  # killed before there is a table
    assert STORE.deltas(Durable(tmp_path)) == ()


def test_every_step_is_one_delta(durable: Durable) -> None:
    deltas = STORE.deltas(durable)
    stored = [json.loads(STORE.read(durable, delta)) for delta in deltas]
    assert [(each["Name"], each["StepDetails"]["Result"]) for each in stored] == steps(durable)
    assert len(stored) == STEPS and all(delta.live for delta in deltas)
    assert [delta.size for delta in deltas] == [len(STORE.read(durable, delta)) for delta in deltas]


def test_write(durable: Durable) -> None:
    delta = STORE.deltas(durable)[2]
    data = STORE.read(durable, delta)
    STORE.write(durable, delta, data.replace(b"step 2", b"step x"))
    assert [name for name, _ in steps(durable)] == ["step 0", "step 1", "step x", "step 3"]


@pytest.mark.parametrize("order", range(STEPS))
def test_delete_and_duplicate(durable: Durable, order: int) -> None:
    before = steps(durable)
    STORE.duplicate(durable, STORE.deltas(durable)[order])
    assert steps(durable) == [*before[: order + 1], *before[order:]]
    for _ in range(2):
        STORE.delete(durable, STORE.deltas(durable)[order])
    assert steps(durable) == before[:order] + before[order + 1 :]


def test_all_can_be_deleted(durable: Durable) -> None:
    for _ in range(STEPS):
        STORE.delete(durable, STORE.deltas(durable)[0])
    assert steps(durable) == [] and STORE.deltas(durable) == ()


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_flipped_bit_is_in_its_delta_or_breaks_it_all(data: st.DataObject, written: Path) -> None:
    copy = Durable(written / "copy")
    shutil.rmtree(copy.folder, ignore_errors=True)
    copy.folder.mkdir()
    shutil.copy(written / DATABASE, copy.folder)
    deltas = STORE.deltas(copy)
    before = [STORE.read(copy, delta) for delta in deltas]
    delta = data.draw(st.sampled_from(deltas))
    place, bit = data.draw(st.integers(0, delta.size - 1)), data.draw(st.integers(0, 7))
    flipped = bytearray(before[delta.order])
    flipped[place] ^= 1 << bit
    STORE.write(copy, delta, bytes(flipped))

    after = [STORE.read(copy, each) for each in STORE.deltas(copy)]
    others = [*before[: delta.order], *before[delta.order + 1 :]]
    assert after in ([*before[: delta.order], bytes(flipped), *before[delta.order + 1 :]], others, [])
    if not after:  # then the runner cannot read it either
        with pytest.raises((RuntimeError, ValueError)):
            steps(copy)
