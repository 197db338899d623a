"""LangGraph's checkpoints on a real PostgreSQL: what comes back is the same as from SQLite, from every phase."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chaos.durable import Durable
from chaos.errors import ScenarioError
from chaos.stores.langgraph_postgres import LanggraphPostgres
from chaos.targets import Strategy
from chaos.targets.reference import Reference
from chaos.targets.reference.agent import State
from chaos.targets.reference.strategies.delta import Delta
from chaos.targets.reference.strategies.full_snapshot import FullSnapshot

STEPS = 12
MAIL = 2  # the step of the key-less e-mail
AGAIN = {"before_think": 0, "before_act": 0, "after_act": 1, "during_commit": 0, "after_commit": 0}
"""How often the e-mail is sent again after a kill at a phase of its step."""

# Any: the bench is a class of conftest.py, which cannot be imported under --import-mode=importlib
Make = Callable[..., Any]


@pytest.fixture
def make(make_bench: Make, lease: Callable[[Any, str], None]) -> Callable[[], Any]:
    """Return a maker of benches with a database of their own."""

    def made() -> Any:
        bench = make_bench(Reference(steps=STEPS))
        lease(bench, "postgres")
        return bench

    return made


@pytest.fixture
def whole(make_bench: Make) -> State:
    """Return the final state of a run without a crash, on SQLite."""
    bench = make_bench(Reference(steps=STEPS))
    assert bench.incarnation(FullSnapshot()) == 0, bench.error
    state: State = bench.final()
    return state


@pytest.mark.parametrize("kind", [FullSnapshot, Delta])
def test_the_database_decides_on_store_and_server(kind: Any) -> None:
    assert (kind().store, kind().needs) == ("langgraph_sqlite", ())
    assert (kind(database="postgres").store, kind(database="postgres").needs) == ("langgraph_postgres", ("postgres",))
    with pytest.raises(ScenarioError, match=r"database must be sqlite or postgres \(got 'mysql'\)"):
        kind(database="mysql")


@pytest.mark.parametrize("strategy", [FullSnapshot("postgres"), Delta(10, "postgres")], ids=["full", "delta"])
def test_it_comes_back_right_from_every_phase(make: Callable[[], Any], whole: State, strategy: Strategy) -> None:
    for phase, again in AGAIN.items():
        bench = make()
        bench.crashed(strategy, f"{MAIL}/{phase}", type(bench).kill)
        assert bench.final() == whole, phase
        assert bench.effects().count("email.send") == 1 + again, phase
        assert bench.asked_again() == (phase in ("before_act", "after_act")), phase
    assert bench.reload(strategy) == whole
    assert list((bench.root / "durable").iterdir()) == []


@pytest.mark.parametrize("every", [20, 50, 1000])
def test_deltas_are_replayed_in_a_new_process(make: Callable[[], Any], every: int) -> None:
    strategy, bench = Delta(every, "postgres"), make()
    bench.crashed(strategy, "10/before_think", type(bench).evict)
    loaded = next(point for point in reversed(bench.points) if point.point == "after_load")
    assert loaded.step == 10 and bench.asked_again() == 0
    assert len(bench.final()["messages"]) == 2 + 2 * STEPS - 1


def test_a_lost_delta_is_a_lost_message_without_an_error(make: Callable[[], Any]) -> None:
    strategy, bench = Delta(1000, "postgres"), make()

    def kill_and_delete(bench: Any) -> None:
        bench.kill()
        store, durable = LanggraphPostgres(), Durable(bench.root / "durable", bench.leases)
        store.delete(durable, store.deltas(durable)[5])

    bench.crashed(strategy, "8/after_commit", kill_and_delete)
    assert bench.error == ""
    assert len(bench.final()["messages"]) != 2 + 2 * STEPS - 1
