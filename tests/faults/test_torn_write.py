"""Half a write in a real store: what is left of it, what the next incarnation finds, and what makes no half."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from chaos import registry
from chaos.events.done import Audited, StoreDamaged
from chaos.events.seen import Exited
from chaos.faults.torn_write import TornWrite
from chaos.journal import AnyEvent
from chaos.stores.jsonl import Jsonl
from chaos.targets.reference import Reference
from chaos.verdict import CellVerdict
from tests import toy
from tests.cells import ReferenceCell

AT = "torn_write@1/after_commit"

# The agent stands at a point when all is stored, and tells after each start what is in the log.
READS_LOG = """
if not toy.LOG.exists(): toy.LOG.write_text('"one"\\n"two"\\n"three"\\n')
say(toy.LOG.read_text().encode().hex())
point("after_commit", 1)
"""


def test_the_last_line_ends_in_its_middle_and_the_others_stay(tmp_path: Path) -> None:
    ends = set()
    for seed in range(6):
        made = toy.setup(toy.Toy(READS_LOG), {"torn_write": TornWrite()}, store=Jsonl())
        ran = toy.execute_plan(tmp_path / str(seed), made, AT, seed)
        assert ran.statuses == [-signal.SIGKILL, 0]
        before, after = (bytes.fromhex(text) for text in ran.told)
        assert before.startswith(after) and after.startswith(b'"one"\n"two"\n"') and len(after) < len(before)
        (torn,), (landed,) = ran.all(StoreDamaged), ran.landed
        assert (torn.how, torn.bytes_before, torn.bytes_after) == ("tear", len(before), len(after))
        assert torn.where == f"byte {len(after)} of history.jsonl, in the write from 12 to 20"
        assert landed.evidence["digest"] == f"{torn.digest_before} -> {torn.digest_after}"
        ends.add(len(after))
    assert len(ends) > 1  # the run's own randomness chooses


def test_with_nothing_written_it_misses(tmp_path: Path) -> None:
    run, cell = toy.replay(tmp_path, TornWrite(), "torn_write@0/before_act")
    assert run.attempts == 2  # the agent was killed all the same
    assert run.landed == () and run.verdict is cell.verdict is CellVerdict.NOT_EXERCISED


def test_of_a_single_byte_there_is_no_half(tmp_path: Path) -> None:
    code = 'toy.LOG.write_text("1\\n\\n")\npoint("after_commit", 1)'
    made = toy.setup(toy.Toy(code), {"torn_write": TornWrite()}, store=Jsonl())
    assert toy.execute_plan(tmp_path, made, AT).landed == ()


def test_a_torn_commit_of_sqlite_is_left_out_and_its_step_done_again(tmp_path: Path) -> None:
    cell = ReferenceCell(tmp_path, Reference(steps=16), "delta", faults={"torn_write": TornWrite()})
    ran = cell.run("torn_write@9/during_commit")
    (torn,) = (event for event in ran.record.events if isinstance(event, StoreDamaged))
    assert "of state.db-wal" in torn.where and torn.bytes_after % 512 == 0 and torn.bytes_after < torn.bytes_before
    crashed, end = (event for event in ran.record.events if isinstance(event, Audited))
    assert (crashed.when, crashed.findings, end.when, end.findings) == ("crashed", (), "end", ())
    assert ran.broken() == {}


def test_it_suits_stores_whose_last_write_a_crash_can_tear() -> None:
    suits = {
        name: TornWrite().unsuited(registry.load("stores", name)(), toy.Keeps()) for name in registry.names("stores")
    }
    assert {name for name, why in suits.items() if not why} >= {"jsonl", "langgraph_sqlite", "redis_history"}
    assert "full_page_writes" in suits["langgraph_postgres"] and "full_page_writes" in suits["dbos_postgres"]
    assert "rollback journal" in suits["dbos_sqlite"] and "memory" in suits["temporal_sqlite"]
    assert TornWrite().unsuited(None, toy.Forgets()) == "the strategy stores nothing"


def torn(before: str = "a", after: str = "b") -> StoreDamaged:
    return StoreDamaged(
        at=1.0, attempt=1, store="Jsonl", how="tear", where="byte 3 of history.jsonl",
        bytes_before=8, bytes_after=3, digest_before=before, digest_after=after,
    )  # fmt: skip


def exited(status: int) -> Exited:
    return Exited(at=2.0, attempt=1, status=status)


@pytest.mark.parametrize(
    ("events", "lands"),
    [
        ([torn(), exited(-9)], True),
        ([torn("a", "a"), exited(-9)], False),
        ([torn(), exited(0)], False),
        ([exited(-9)], False),
        ([], False),
    ],
)
def test_a_death_and_a_file_that_is_shorter_are_the_proof(events: list[AnyEvent], lands: bool) -> None:
    assert (TornWrite().landed("1/after_commit", events) is not None) is lands
