"""The agent on durable runtimes, in real processes: it comes back where the records end, and replays in silence."""

from __future__ import annotations

import dataclasses
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos import registry
from chaos.durable import Durable
from chaos.errors import ScenarioError
from chaos.stores import Delta, Store
from chaos.targets import Launch, Strategy
from chaos.targets.reference import CONFIG, Reference
from chaos.targets.reference.strategies.events import Events

STEPS = 12
MAIL = 2  # the step of the first key-less effect
MAILS = 1  # in a whole run
MIDDLE = 7
VARIANTS = (Events("dbos"), Events("dbos", "postgres"), Events("aws"))
LOCAL = (Events("dbos"), Events("aws"))
LOAD, END = ("before_load", 0), ("finished", STEPS)

# Any: the bench is a class of conftest.py, which cannot be imported under --import-mode=importlib
Bench = Callable[[Strategy], Any]


def label(strategy: Events) -> str:
    return f"{strategy.runtime}-{strategy.database}" if strategy.runtime == "dbos" else strategy.runtime


every_variant = pytest.mark.parametrize("strategy", VARIANTS, ids=label)
every_local = pytest.mark.parametrize("strategy", LOCAL, ids=label)


@pytest.fixture
def bench_for(make_bench: Callable[..., Any], lease: Callable[[Any, str], None]) -> Bench:
    """Return a maker of benches that have the servers which a strategy needs."""

    def make(strategy: Strategy) -> Any:
        if missing := strategy.missing():
            pytest.skip(missing)
        bench = make_bench(Reference(steps=STEPS))
        for server in strategy.needs:
            lease(bench, server)
        return bench

    return make


def kill(bench: Any) -> None:
    bench.kill()


def evict(bench: Any) -> None:
    bench.evict()


def terminate(bench: Any) -> None:
    bench.terminate()


def points(bench: Any, since: int = 0) -> list[tuple[str, int]]:
    return [(said.point, said.step) for said in bench.points[since:]]


def durable(bench: Any) -> Durable:
    return Durable(bench.root / "durable", bench.leases)


def store(strategy: Events) -> Store:
    made: Store = registry.load("stores", strategy.store)()
    return made


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"runtime": "restate"}, "runtime must be dbos, temporal or aws"),
        ({"database": "mysql"}, "database must be sqlite or postgres"),
        ({"runtime": "aws", "database": "postgres"}, "database: postgres is for runtime: dbos"),
    ],
)
def test_wrong_options_are_told(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        Events(**given)


def test_what_the_variants_need_and_store() -> None:
    every = [*VARIANTS, Events("temporal")]
    assert [each.needs for each in every] == [(), ("postgres",), (), ("temporal",)]
    assert [each.store for each in every] == ["dbos_sqlite", "dbos_postgres", "aws_sqlite", "temporal_sqlite"]


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert Events().missing() == "no package dbos; pip install 'pytest-chaos[strategies]'"


@every_local
def test_without_a_workflow_there_is_no_state(strategy: Events, tmp_path: Path) -> None:
    if missing := strategy.missing():
        pytest.skip(missing)
    assert strategy.load(Durable(tmp_path)) is None


@every_variant
def test_a_run_is_that_of_any_other_strategy(bench_for: Bench, strategy: Events) -> None:
    """The same points, with the same digests, as where the state is written to a plain file."""
    plain, bench = bench_for(cow := Reference().strategy("cow", {})), bench_for(strategy)
    assert plain.incarnation(cow) == 0, plain.error
    assert bench.incarnation(strategy) == 0, bench.error
    assert bench.points == plain.points
    assert bench.reload(strategy) == bench.final()
    assert bench.asked_again() == 0 and bench.tree() == []


# Where the incarnations of one run are killed one after the other, and the step that each of them goes on from.
EVERY_PHASE = (
    ("0/before_load", 0),
    (f"{MAIL}/during_commit", 0),
    (f"{MAIL}/after_load", MAIL),
    ("3/before_think", MAIL),
    ("4/before_act", 3),
    ("5/after_act", 4),
    ("6/after_commit", 5),
    (f"{STEPS}/finished", 7),
)
THE_COMMIT = ((f"{MAIL}/during_commit", 0), ("6/after_commit", MAIL), (f"{STEPS}/finished", 7))


@pytest.mark.parametrize(
    ("strategy", "places", "again"),
    [(VARIANTS[0], EVERY_PHASE, 3), (VARIANTS[1], THE_COMMIT, 1), (VARIANTS[2], EVERY_PHASE, 3)],
    ids=[label(strategy) for strategy in VARIANTS],
)
def test_a_loop_of_kills(bench_for: Bench, strategy: Events, places: tuple[tuple[str, int], ...], again: int) -> None:
    """Only a step that was cut off is done again, and only what is really done is announced."""
    bench = bench_for(strategy)
    for at, resumed in places:
        since = len(bench.points)
        assert bench.incarnation(strategy, at, kill) == -signal.SIGKILL, bench.error
        announced = points(bench, since)
        step, phase = at.split("/")
        assert announced[0] == LOAD and announced[-1] == (phase, int(step))
        if phase != "before_load":
            assert announced[1] == ("after_load", resumed)
        assert not [(phase, step) for phase, step in announced[1:] if step < resumed]
    since = len(bench.points)
    assert bench.incarnation(strategy) == 0, bench.error
    assert points(bench, since) == [LOAD, ("after_load", STEPS), END], "all was on record"
    assert bench.final() == bench.reload(strategy)
    committed = {said.step: said.state for said in bench.points if said.point == "after_commit"}
    assert sorted(committed) == list(range(STEPS)) and bench.points[-1].state == committed[STEPS - 1]
    assert bench.effects().count("email.send") == MAILS + 1
    assert bench.asked_again() == again, "of the steps of which the answer was there, and no record"
    assert all(bench.right_files().values())


def test_the_files_of_recorded_steps_are_lost_with_the_disk(bench_for: Bench) -> None:
    strategy = Events()
    bench = bench_for(strategy)
    bench.crashed(strategy, f"{MIDDLE}/before_act", evict)
    (before,) = (p for p in bench.points if (p.step, p.point) == (MIDDLE - 1, "after_commit"))
    after = [p for p in bench.points if p.point == "after_load"][-1]
    assert (after.step, after.state) == (MIDDLE, before.state)
    assert not all(bench.right_files().values())


@every_local
def test_sigterm_ends_the_process_and_not_the_workflow(bench_for: Bench, strategy: Events) -> None:
    bench = bench_for(strategy)
    for at in (f"{MIDDLE}/after_act", f"{MIDDLE}/after_commit"):
        assert bench.incarnation(strategy, at, terminate) not in (0, -signal.SIGKILL)
        assert bench.tree() == []
    assert bench.incarnation(strategy) == 0, bench.error
    assert bench.final()["steps"] == STEPS


@dataclasses.dataclass(frozen=True)
class Short(Reference):
    """An agent that may take only a few steps."""

    def launch(self, strategy: Strategy, seed: int, root: Path) -> Launch:
        made = super().launch(strategy, seed, root)
        return Launch(made.command, {**made.env, CONFIG: json.dumps({**json.loads(made.env[CONFIG]), "max_steps": 5})})


@every_local
def test_an_error_of_the_agent_is_loud_and_not_recorded(bench_for: Bench, strategy: Events) -> None:
    """As with every other strategy: the process ends with the error, and the next one tries again."""
    bench = bench_for(strategy)
    bench.target = Short(steps=STEPS)
    assert bench.incarnation(strategy) == 1
    assert "BudgetExhausted: 5 steps are used" in bench.error
    bench.target = Reference(steps=STEPS)
    assert bench.incarnation(strategy) == 0, bench.error
    assert bench.final()["steps"] == STEPS and bench.asked_again() == 0


def damaged(bench: Any, strategy: Events, damage: Callable[[Store, Durable, Delta], None]) -> None:
    """Kill the agent in the middle and damage the record of a step some way before that."""
    assert bench.incarnation(strategy, f"{MIDDLE}/after_commit", kill) == -signal.SIGKILL, bench.error
    deltas = store(strategy).deltas(durable(bench))
    assert len(deltas) == MIDDLE + 1
    damage(store(strategy), durable(bench), deltas[4])


@every_local
def test_a_missing_record_is_made_again_and_an_unreadable_one_refused(bench_for: Bench, strategy: Events) -> None:
    bench = bench_for(strategy)
    damaged(bench, strategy, lambda store, durable, delta: store.delete(durable, delta))
    assert bench.reload(strategy)["steps"] == 4
    assert bench.incarnation(strategy, f"{MIDDLE + 2}/after_commit", kill) == -signal.SIGKILL, bench.error
    assert bench.asked_again() == 1
    assert [said.step for said in bench.points if said.point == "after_commit"][-3:] == [4, MIDDLE + 1, MIDDLE + 2]
    latest = store(strategy).deltas(durable(bench))[-1]
    store(strategy).write(durable(bench), latest, b"\xff" * latest.size)
    for _ in range(2):  # and it stays refused
        since = len(bench.points)
        assert bench.incarnation(strategy) == 1
        assert points(bench, since) == [LOAD]


def test_dbos_takes_a_second_record_for_that_of_the_next_step(bench_for: Bench) -> None:
    strategy = Events("dbos")
    bench = bench_for(strategy)
    damaged(bench, strategy, lambda store, durable, delta: store.duplicate(durable, delta))
    assert bench.incarnation(strategy) == 0, bench.error
    messages = bench.final()["messages"]
    assert len({json.dumps(message, sort_keys=True) for message in messages}) < len(messages)


def test_aws_counts_one_of_two_records(bench_for: Bench) -> None:
    strategy = Events("aws")
    bench = bench_for(strategy)
    damaged(bench, strategy, lambda store, durable, delta: store.duplicate(durable, delta))
    assert bench.incarnation(strategy) == 0, bench.error
    assert bench.final()["steps"] == STEPS and bench.asked_again() == 0
