"""An earlier state of a real store put back: the agent does again what was lost, and cannot tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos import registry
from chaos.errors import ScenarioError
from chaos.events.done import StoreRolledBack
from chaos.events.seen import Effected, Exited
from chaos.faults.stale_store import StaleStore
from chaos.journal import AnyEvent
from chaos.stores.jsonl import Jsonl
from chaos.targets.reference import Reference
from chaos.targets.reference.strategies.events import Events
from chaos.verdict import CellVerdict
from tests import toy
from tests.cells import ReferenceCell


@pytest.mark.parametrize(("behind", "kept"), [(1, 3), (2, 2), (3, 1)])
def test_the_next_incarnation_finds_the_store_of_so_many_commits_ago(tmp_path: Path, behind: int, kept: int) -> None:
    faults = {"stale_store": StaleStore(behind=behind)}
    ran = toy.run(tmp_path, "work()", "stale_store@3/after_commit", faults, steps=5, store=Jsonl())
    assert ran.statuses == [-9, 0]
    (back,), (landed,) = ran.all(StoreRolledBack), ran.landed
    assert (back.behind, back.records_before, back.records_after) == (behind, 4, kept)
    assert landed.evidence["records"] == f"4 -> {kept}"
    assert ran.reached("after_load", attempt=2) == [kept]
    assert ran.reached("after_commit", attempt=2) == list(range(kept, 5))
    mails = [event.deduplicated for event in ran.all(Effected)]
    assert mails == ([False, True] if kept == 1 else [False])  # it has a key


def test_where_the_agent_stands_does_not_matter(tmp_path: Path) -> None:
    """One commit behind is the newest commit gone, before the next step as well as in it."""
    faults = {"stale_store": StaleStore(behind=1)}
    for point in ("2/after_commit", "3/before_think", "3/after_act"):
        ran = toy.run(tmp_path / point, "work()", f"stale_store@{point}", faults, steps=5, store=Jsonl())
        assert ran.reached("after_load", attempt=2) == [2], point


def test_with_fewer_commits_it_misses(tmp_path: Path) -> None:
    run, cell = toy.replay(tmp_path, StaleStore(behind=2), "stale_store@1/after_commit")
    assert run.attempts == 2
    assert run.landed == () and run.verdict is cell.verdict is CellVerdict.NOT_EXERCISED


@pytest.mark.parametrize(("strategy", "options"), [("cow", {}), ("chat_history", {"database": "redis"})])
def test_files_and_servers_go_back(tmp_path: Path, strategy: str, options: dict[str, object]) -> None:
    cell = ReferenceCell(tmp_path, Reference(steps=16), strategy, options, {"stale_store": StaleStore(behind=3)})
    with_servers = cell.setup.strategy.needs
    if missing := next(filter(None, map(cell.setup.pool.missing, with_servers)), ""):
        pytest.skip(missing)
    try:
        ran = cell.run("stale_store@8/after_commit")
        assert ran.rpo == 3
        if strategy != "chat_history":  # which does not recover at all
            assert set(ran.broken()) <= {"effects"}
    finally:
        cell.setup.pool.close()


def test_it_suits_stores_that_can_go_back_under_their_server() -> None:
    fault = StaleStore()
    assert fault.unsuited(Jsonl(), toy.Keeps()) == ""
    assert fault.unsuited(registry.load("stores", "dbos_postgres")(), Events(database="postgres")) == ""
    assert "in its memory" in fault.unsuited(registry.load("stores", "temporal_sqlite")(), Events(runtime="temporal"))
    assert fault.unsuited(None, toy.Forgets()) == "the strategy stores nothing that could be stale"


def test_it_goes_back_at_least_one_commit() -> None:
    with pytest.raises(ScenarioError, match=r"behind must be at least 1 commit \(got 0\)"):
        StaleStore(behind=0)


def back(before: str = "a", after: str = "b") -> StoreRolledBack:
    return StoreRolledBack(
        at=1.0, attempt=1, store="Jsonl", behind=2, records_before=4, records_after=2,
        digest_before=before, digest_after=after,
    )  # fmt: skip


def exited(status: int) -> Exited:
    return Exited(at=2.0, attempt=1, status=status)


@pytest.mark.parametrize(
    ("events", "lands"),
    [
        ([back(), exited(-9)], True),
        ([back("a", "a"), exited(-9)], False),
        ([back(), exited(0)], False),
        ([exited(-9)], False),
        ([], False),
    ],
)
def test_a_death_and_other_records_read_back_are_the_proof(events: list[AnyEvent], lands: bool) -> None:
    assert (StaleStore().landed("1/after_commit", events) is not None) is lands
