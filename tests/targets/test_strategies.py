"""Each strategy end to end in real processes: it finishes, it comes back, and it keeps exactly what it says."""

from __future__ import annotations

import dataclasses
import signal
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from chaos import registry
from chaos.errors import ScenarioError, UnknownName
from chaos.targets import Strategy, Target
from chaos.targets.reference import Reference
from chaos.world.mishaps import Refuse

# The embedded ones that need no package beyond LangGraph; each of the others has a test module of its own.
NAMES = ("restart", "in_memory", "chat_history", "full_snapshot", "delta", "cow")
DURABLE = ("chat_history", "full_snapshot", "delta", "cow")
CONTROLS = {"restart", "in_memory"}
MAIL = 2  # the step of the key-less effect
MIDDLE = 15  # the engine runs, two commits and a scratch file are there
STEP_PHASES = ["before_think", "before_act", "after_act", "during_commit", "after_commit"]

# Any: the bench is a class of conftest.py, which cannot be imported under --import-mode=importlib
Make = Callable[..., Any]


def strategy(name: str, **options: object) -> Strategy:
    return Reference().strategy(name, options)


@pytest.mark.parametrize("name", registry.names("strategies"))
def test_contract(name: str) -> None:
    kind = registry.load("strategies", name)
    made: Strategy = kind()
    assert kind.__doc__ and not kind.__doc__.startswith(f"{kind.__name__}(")
    assert made.claims <= {"messages", "files", "processes", "environment"}
    assert made.durable == (name not in CONTROLS) == bool(made.claims)
    assert made.store in ("", *registry.names("stores"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.durable = False


def test_reference_is_a_target() -> None:
    target: Target = registry.load("targets", "reference")()
    assert target == Reference()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"steps": 11}, "steps must be at least 12 (got 11)"),
        ({"workload": "quarterly_sails"}, "did you mean 'quarterly_sales'?"),
        ({"bytes_per_step": -1, "step_ms": -2}, "step_ms must not be negative (got -2)"),
    ],
)
def test_wrong_fields_are_told(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as told:
        Reference(**given)
    assert message in str(told.value)


def test_wrong_strategies_are_told() -> None:
    with pytest.raises(UnknownName, match="did you mean 'delta'"):
        strategy("delte")
    with pytest.raises(ScenarioError, match="delta has no option 'evry'; did you mean 'every'"):
        strategy("delta", evry=3)
    with pytest.raises(ScenarioError, match="every must be at least 1"):
        strategy("delta", every=0)
    with pytest.raises(ScenarioError, match="durability must be"):
        strategy("full_snapshot", durability="later")


def test_all_strategies_do_the_same_work(make_bench: Make) -> None:
    ends = {}
    for name in NAMES:
        bench = make_bench()
        assert bench.incarnation(strategy(name)) == 0, bench.error
        assert all(bench.right_files().values())
        assert bench.effects() == ["email.send", "tickets.create", "payments.charge", "email.send"]
        assert bench.asked_again() == 0 and bench.tree() == []
        state = bench.final()
        ends[name] = (state, bench.points[-1].state)
        assert _phases(bench, name)
        if name == "chat_history":
            assert bench.reload(strategy(name))["messages"] == state["messages"]
        elif name in DURABLE:
            assert bench.reload(strategy(name)) == state
    assert all(end == ends["restart"] for end in ends.values())
    assert ends["restart"][0]["steps"] == 24


def _phases(bench: Any, name: str) -> bool:
    """Tell whether every phase was announced once for every step, in order, with states that other steps lack."""
    phases = STEP_PHASES[:3] if name == "restart" else STEP_PHASES
    steps = bench.target.steps
    wanted = [("before_load", 0), ("after_load", 0)]
    wanted += [(phase, step) for step in range(steps) for phase in phases]
    states = [point.state for point in bench.points if point.point == "after_commit"]
    assert [(p.point, p.step) for p in bench.points] == [*wanted, ("finished", steps)]
    return None not in states and len(set(states)) == len(states)


# How often the step of the key-less e-mail is done again after SIGKILL at a phase of it.
AGAIN = {
    "restart": {"after_act": 1},
    "in_memory": {"after_commit": 1},
    "chat_history": {"after_act": 1, "during_commit": 0, "after_commit": 0},
    "full_snapshot": {"after_act": 1, "during_commit": 0, "after_commit": 0},
    "delta": {"after_act": 1, "during_commit": 0},
    "cow": {"after_act": 1, "during_commit": 1, "after_commit": 0},
}


@pytest.mark.parametrize(("name", "phase"), [(n, p) for n, phases in AGAIN.items() for p in phases])
def test_redone_effects(make_bench: Make, name: str, phase: str) -> None:
    bench = make_bench(Reference(steps=12))
    bench.crashed(strategy(name), f"{MAIL}/{phase}", type(bench).kill)
    assert bench.effects().count("email.send") == 1 + AGAIN[name][phase]
    assert bench.asked_again() == (AGAIN[name][phase] if name in DURABLE else MAIL + 1)


@pytest.mark.parametrize("name", NAMES)
def test_comes_back_after_a_kill(make_bench: Make, name: str) -> None:
    whole, bench = make_bench(), make_bench()
    assert whole.incarnation(strategy(name)) == 0
    bench.crashed(strategy(name), f"{MIDDLE}/after_act", type(bench).kill)
    if name == "chat_history":  # it forgot its shell and its engine: the report cannot be right
        assert not bench.right_files()["workspace/report.md"]
        assert bench.final()["steps"] == 24 - MIDDLE
        return
    assert bench.final() == whole.final()
    assert all(bench.right_files().values())


@pytest.mark.parametrize("name", ["full_snapshot", "cow"])
def test_comes_back_after_an_eviction(make_bench: Make, name: str) -> None:
    bench = make_bench()
    bench.crashed(strategy(name), f"{MIDDLE}/before_act", type(bench).evict)
    assert (bench.root / "workspace/env/salesmath-1.0.dist-info").is_dir()
    assert all(bench.right_files().values()) == (name == "cow")
    resumed = next(p for p in reversed(bench.points) if p.point == "after_load")
    assert resumed.step == MIDDLE
    before = next(p for p in bench.points if (p.step, p.point) == (MIDDLE - 1, "after_commit"))
    assert resumed.state == before.state


@pytest.mark.parametrize("name", ["chat_history", "full_snapshot"])
def test_sigterm_ends_it_and_all_that_it_started(bench: Any, name: str) -> None:
    assert bench.incarnation(strategy(name), "12/after_act", type(bench).terminate) != 0
    assert bench.tree() == []


def test_sigterm_is_told_by_the_status(bench: Any) -> None:
    assert bench.incarnation(strategy("restart"), "12/after_act", _terminate_and_wait) == 128 + signal.SIGTERM


def _terminate_and_wait(bench: Any) -> None:
    bench._process.terminate()
    bench._process.wait(10)


def test_delta_loses_a_deleted_delta_silently_and_cow_refuses(make_bench: Make) -> None:
    bench = make_bench()
    assert bench.incarnation(strategy("delta"), f"{MIDDLE}/after_commit", type(bench).kill) == -signal.SIGKILL
    with sqlite3.connect(bench.root / "durable/state.db") as database:
        rows = database.execute("SELECT rowid FROM writes WHERE channel = 'messages' ORDER BY checkpoint_id").fetchall()
        database.execute("DELETE FROM writes WHERE rowid = ?", rows[10])
    assert bench.incarnation(strategy("delta")) == 0, bench.error
    assert len(bench.final()["messages"]) < 2 + 2 * 24 - 1

    bench = make_bench()
    assert bench.incarnation(strategy("cow"), f"{MIDDLE}/after_commit", type(bench).kill) == -signal.SIGKILL
    log = bench.root / "durable/history.jsonl"
    lines = log.read_bytes().split(b"\n")
    for damaged in ([*lines[:9], *lines[10:]], [*lines[:9], lines[9], *lines[9:]], [*lines[:9], b"{}", *lines[10:]]):
        log.write_bytes(b"\n".join(damaged))
        assert bench.incarnation(strategy("cow")) == 1
        assert "CorruptStore" in bench.error


def test_a_torn_line_is_cut_off(bench: Any) -> None:
    assert bench.incarnation(strategy("chat_history"), "5/after_commit", type(bench).kill) == -signal.SIGKILL
    log = bench.root / "durable/history.jsonl"
    log.write_bytes(log.read_bytes() + b'{"messages": [{"ro')
    assert bench.incarnation(strategy("chat_history")) == 0, bench.error
    assert b'{"ro\n' not in log.read_bytes() and bench.asked_again() == 0


@pytest.mark.parametrize(("durability", "saved"), [("async", True), ("exit", False)])
def test_other_durabilities(make_bench: Make, durability: str, saved: bool) -> None:
    bench = make_bench(Reference(steps=12, step_ms=20))
    bench.crashed(strategy("full_snapshot", durability=durability), "8/after_act", type(bench).kill)
    resumed = [p.step for p in bench.points if p.point == "after_load"][-1]
    assert resumed > 0 if saved else resumed == 0


def test_a_burst_of_refusals_is_waited_out(bench: Any) -> None:
    bench.world.mishaps.arm(Refuse(retry_after=0.01), 3)
    assert bench.incarnation(strategy("restart"), gated=False) == 0, bench.error
    assert [event.retry for event in bench.journal.events[:4]] == [0, 1, 2, 3]
