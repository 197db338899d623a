"""A strategy's server that is away: real servers, killed or cut off, and what is there when they are back."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from chaos import campaign, registry
from chaos.campaign import Cell, Runner
from chaos.errors import HarnessError
from chaos.events.done import Healed, LinkHit, Poisoned, ServerBack, ServerKilled
from chaos.events.seen import Exited, Reached, Started
from chaos.explorers.fixed import Fixed
from chaos.faults import Fault
from chaos.faults.kill import Kill
from chaos.faults.store_down import StoreDown
from chaos.journal import read as read_journal
from chaos.plan import parse_plan
from chaos.pool import Pool
from chaos.record import Record
from chaos.results import Landed
from chaos.run import Setup, execute
from chaos.scenario import Limits, StrategySpec
from chaos.targets.reference import Reference
from chaos.verdict import CellVerdict
from tests import toy
from tests.cells import ReferenceCell

PATIENT = Limits(backoff_seconds=0.1, backoff_limit=7)
STEPS = 12
POINT = "3/after_act"


def needs(name: str) -> Any:
    """Skip where the server *name* is missing."""
    missing = registry.load("servers", name)().missing("")
    return pytest.mark.skipif(bool(missing), reason=missing)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    made = Pool()
    yield made
    made.close()


def setup(pool: Pool, folder: Path, name: str, database: str, faults: dict[str, Fault]) -> Setup:
    cell = ReferenceCell(folder, Reference(steps=STEPS), name, {"database": database}, faults)
    return replace(cell.setup, pool=pool, limits=PATIENT)


def run(made: Setup, folder: Path, plan: str) -> tuple[Record, tuple[Landed, ...]]:
    record = execute(made, parse_plan(plan), folder / "run", random.Random(1))
    return record, campaign.landings(record, parse_plan(plan), made)


def events(record: Record, kind: type[Any]) -> list[Any]:
    return [event for event in record.events if isinstance(event, kind)]


@pytest.mark.parametrize(
    ("strategy", "database", "how"),
    [
        pytest.param("full_snapshot", "postgres", "killed", marks=needs("postgres")),
        pytest.param("chat_history", "redis", "killed", marks=needs("redis")),
        pytest.param("chat_history", "redis", "unreachable", marks=needs("redis")),
    ],
)
def test_it_lands_and_nothing_acknowledged_is_lost(
    pool: Pool, tmp_path: Path, strategy: str, database: str, how: Any
) -> None:
    record, landed = run(setup(pool, tmp_path, strategy, database, {"down": StoreDown(how)}), tmp_path, f"down@{POINT}")
    assert [proof.fault for proof in landed] == ["store_down"]
    assert landed[0].evidence["connections"] and events(record, Poisoned)[0].link == database
    statuses = [event.status for event in events(record, Exited)]
    assert len(statuses) > 1 and set(statuses[:-1]) == {1} and statuses[-1] == 0, "loud ends, then a good one"
    resumed = [event.step for event in events(record, Reached) if event.phase == "after_load" and event.attempt > 1]
    assert resumed == [3], "steps 0 to 2 had been committed"
    if how == "killed":
        (killed,), (back,) = events(record, ServerKilled), events(record, ServerBack)
        assert (killed.server, killed.status) == (database, -signal.SIGKILL) and killed.pid != back.pid
        assert landed[0].evidence["pid"] == f"{killed.pid} -> {back.pid}"


@needs("redis")
def test_while_the_agent_recovers(pool: Pool, tmp_path: Path) -> None:
    """A kill, and the server dies before the next incarnation has read anything: it, too, was seen to come."""
    faults: dict[str, Fault] = {"kill": Kill(), "down": StoreDown("killed")}
    made = setup(pool, tmp_path, "chat_history", "redis", faults)
    record, landed = run(made, tmp_path, f"kill@{POINT}+down@recovery/before_load")
    assert [proof.fault for proof in landed] == ["kill", "store_down"]
    assert events(record, Exited)[-1].status == 0 and len(events(record, Started)) >= 3


@dataclass(frozen=True)
class Names(toy.Keeps):
    """Says that it needs a server, and never goes there."""

    needs: ClassVar[tuple[str, ...]] = ("redis",)


@needs("redis")
@pytest.mark.parametrize("how", ["unreachable", "killed"])
def test_a_server_that_nobody_misses_has_not_been_away(tmp_path: Path, how: Any) -> None:
    strategy = StrategySpec("names", "keeps", Names())
    made = toy.scenario(toy.spec(StoreDown(how, seconds=0.02)), strategies=(strategy,))
    runner = Runner(tmp_path, "campaign", 1)
    cell = runner.run_cell(Cell(made, strategy, made.faults[0]))
    runner.close()
    assert cell.verdict is CellVerdict.NOT_EXERCISED and not cell.passed
    assert "left no proof that it hit" in cell.why
    (only,) = toy.runs(tmp_path)
    seen = read_journal(tmp_path / only.journal)
    assert [event.hits for event in seen if isinstance(event, Healed)] == [0]
    assert any(isinstance(event, ServerBack) for event in seen) is (how == "killed")


def test_strategies_without_a_server_are_not_suited() -> None:
    assert "no server that could be away" in StoreDown().unsuited(None, toy.Keeps())


@needs("redis")
def test_somebody_s_server_is_not_killed(pool: Pool, tmp_path: Path) -> None:
    """The cell says so before anything is run; and the fault would not do it either."""
    with pool.leases(("redis",)) as leases:
        theirs = Pool({"redis": leases.parts["redis"].url})
        assert "somebody's server, which is not killed" in theirs.foreign("redis") and pool.foreign("redis") == ""
        made = setup(theirs, tmp_path, "chat_history", "redis", {"down": StoreDown("killed")})
        with pytest.raises(HarnessError, match="somebody's server"):
            run(made, tmp_path, f"down@{POINT}")
        theirs.close()
        assert leases.running["redis"].service is not None and not leases.running["redis"].service.away


@needs("redis")
def test_the_cell_of_somebody_s_server_is_skipped_with_the_reason(pool: Pool, tmp_path: Path) -> None:
    target = Reference(steps=STEPS)
    spec = StrategySpec("chat_history", "chat_history", target.strategy("chat_history", {"database": "redis"}))
    with pool.leases(("redis",)) as leases:
        runner = Runner(tmp_path, "c", 1, addresses={"redis": leases.parts["redis"].url})
        for how, reason in (("killed", "is not killed"), ("unreachable", "")):
            fault = toy.spec(StoreDown(how), Fixed((3,), ("after_act",)))  # type: ignore[arg-type]
            cell = Cell(toy.scenario(fault, target=target, strategies=(spec,)), spec, fault)
            assert (reason in runner.lacking(cell)) if reason else runner.lacking(cell) == ""
        assert runner.run_cell(replace(cell, fault=toy.spec(StoreDown("killed")))).skipped.startswith(
            "redis is somebody's"
        )
        runner.close()


def test_only_a_dead_server_and_a_new_one_are_a_kill() -> None:
    common: dict[str, Any] = {"at": 1.0, "attempt": 1}
    begun = Poisoned(**common, link="redis", number=1, toxic="killed")
    hit = LinkHit(**common, link="redis", number=1, connection=1, how="reset by the dead")
    killed = ServerKilled(**common, server="redis", pid=7, status=-9)
    back = ServerBack(**common, server="redis", pid=8, recovery_seconds=0.1)
    fault = StoreDown("killed")
    assert fault.landed(POINT, [begun, hit, killed, back]) is not None
    for lacking in (begun, hit, killed, back):
        assert fault.landed(POINT, [each for each in (begun, hit, killed, back) if each is not lacking]) is None
    ended = ServerKilled(**common, server="redis", pid=7, status=0)
    same = ServerBack(**common, server="redis", pid=7, recovery_seconds=0.1)
    assert fault.landed(POINT, [begun, hit, ended, back]) is None
    assert fault.landed(POINT, [begun, hit, killed, same]) is None
    assert StoreDown().landed(POINT, [begun, hit]) is not None and StoreDown().landed(POINT, [begun]) is None
