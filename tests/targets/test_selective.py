"""Selective checkpoints in real processes: what a resume does again, and that deltas cannot be left out."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from chaos.errors import ScenarioError
from chaos.targets.reference import Reference
from chaos.targets.reference.selection import critical
from chaos.targets.reference.strategies.selective import Selective

STEPS = 12
KEPT = [0, 2, 3, 5, 7, 9, 11]  # rows, an e-mail, the 4th, search, the 8th, ticket and payment, the last
MAIL = 2  # the step of the key-less e-mail; the checkpoint before it is of step 0
PHASES = ["before_think", "before_act", "after_act", "during_commit", "after_commit"]

# Any: the bench is a class of conftest.py, which cannot be imported under --import-mode=importlib
Make = Callable[..., Any]


@pytest.fixture
def bench_for(make_bench: Make, lease: Callable[[Any, str], None]) -> Make:
    """Return a maker of benches that have the servers which a strategy needs."""

    def make(strategy: Selective, steps: int = STEPS) -> Any:
        bench = make_bench(Reference(steps=steps))
        for server in strategy.needs:
            lease(bench, server)
        return bench

    return make


def committed(bench: Any) -> list[int]:
    return [point.step for point in bench.points if point.point == "after_commit"]


def resumed(bench: Any) -> int:
    return [int(point.step) for point in bench.points if point.point == "after_load"][-1]


def test_wrong_options_are_told() -> None:
    with pytest.raises(ScenarioError, match="every must be at least 1"):
        Selective(every=0)
    with pytest.raises(ScenarioError, match="channels must be full or delta"):
        Selective(channels="deltas")  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match=r"database must be sqlite or postgres \(got 'mysql'\)"):
        Selective(database="mysql")  # type: ignore[arg-type]


def test_a_step_is_critical_if_it_calls_a_service_or_is_the_last() -> None:
    def step(tool: str) -> Any:
        call = {"id": "1", "type": "function", "function": {"name": tool, "arguments": "{}"}}
        return [{"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "content": "done"}]

    assert critical(step("call_service"))
    assert not critical(step("write_file"))
    assert critical([{"role": "assistant", "content": "All done."}])


@pytest.mark.parametrize(("database", "phases"), [("sqlite", PHASES), ("postgres", PHASES[2:])])
def test_it_comes_back_right_from_every_phase(bench_for: Make, database: Any, phases: list[str]) -> None:
    strategy = Selective(every=4, database=database)
    whole = bench_for(strategy)
    assert whole.incarnation(strategy) == 0, whole.error
    assert committed(whole) == KEPT
    assert whole.reload(strategy) == whole.final()
    for phase in phases:
        bench = bench_for(strategy)
        bench.crashed(strategy, f"{MAIL}/{phase}", type(bench).kill)
        done_again = phase in ("after_act", "during_commit")
        assert resumed(bench) == (MAIL + 1 if phase == "after_commit" else 1), phase
        assert bench.effects().count("email.send") - whole.effects().count("email.send") == done_again, phase
        assert bench.final() == whole.final(), phase
        assert all(bench.right_files().values()), phase


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_writes_on_a_kept_checkpoint_are_taken_up(bench_for: Make, database: Any) -> None:
    """The e-mail and the step behind it are kept both: killed in between, the later one is not done again."""
    strategy = Selective(every=4, database=database)
    bench = bench_for(strategy)
    bench.crashed(strategy, f"{MAIL + 1}/during_commit", type(bench).kill)
    assert resumed(bench) == MAIL + 2 and bench.asked_again() == 0
    assert committed(bench) == KEPT


def test_steps_since_the_last_kept_one_are_lost(bench_for: Make) -> None:
    bench = bench_for(Selective(), 24)
    bench.crashed(Selective(), "19/during_commit", type(bench).kill)
    assert resumed(bench) == 14 and bench.asked_again() == 6
    assert bench.effects() == ["email.send", "tickets.create", "payments.charge", "email.send"]


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_on_delta_channels_messages_are_lost_without_an_error(bench_for: Make, database: Any) -> None:
    strategy = Selective(database=database, channels="delta")
    bench = bench_for(strategy, 24)
    assert bench.incarnation(strategy, "15/before_think", type(bench).kill) == -signal.SIGKILL
    stored = bench.reload(strategy)
    assert stored["steps"] == 14 and len(stored["messages"]) < 2 + 2 * 14
    assert bench.incarnation(strategy) == 0, bench.error
    assert bench.error == ""
    assert len(bench.final()["messages"]) < 2 + 2 * 24 - 1
    assert not all(bench.right_files().values())
