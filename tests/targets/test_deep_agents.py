"""The agent as a Deep Agent: the same work, both kinds of state as deltas, and files that come back from it."""

from __future__ import annotations

import signal
import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from chaos.durable import Durable
from chaos.errors import ScenarioError
from chaos.events.seen import Asked
from chaos.targets import Strategy
from chaos.targets.reference import Reference
from chaos.targets.reference.agent import Completion
from chaos.world import Message

pytest.importorskip("deepagents", reason="deepagents is not installed")

STEPS = 12
STEP_PHASES = ["before_think", "before_act", "after_act", "during_commit", "after_commit"]
LAST = STEPS - 1
KILLS = (*(f"4/{phase}" for phase in STEP_PHASES), f"{LAST}/after_act", f"{LAST}/during_commit")

# Any: the bench is a class of conftest.py, which cannot be imported under --import-mode=importlib
Make = Callable[..., Any]


def deep_agents(every: int = 50) -> Strategy:
    return Reference().strategy("deep_agents", {"every": every})


def requests(bench: Any) -> Counter[int]:
    return Counter(event.turn for event in bench.journal.events if isinstance(event, Asked))


def test_a_wrong_option_is_told() -> None:
    with pytest.raises(ScenarioError, match="every must be at least 1"):
        deep_agents(0)


@pytest.mark.parametrize("every", [7, 50])
def test_messages_and_files_are_delta_channels(tmp_path: Any, every: int) -> None:
    from langgraph.channels import DeltaChannel

    from chaos.targets.reference import deep
    from chaos.targets.reference.savers import opened

    with opened(Durable(tmp_path), "sqlite") as saver:
        channels = deep.compiled(None, saver, every).channels
    deltas = {name: channel for name, channel in channels.items() if isinstance(channel, DeltaChannel)}
    assert {name: channel.snapshot_frequency for name, channel in deltas.items()} == {"messages": every, "files": every}


def test_it_does_the_same_work_and_is_killed_anywhere(make_bench: Make) -> None:
    """Killed in every phase of a step and of the last one, it ends in the state of an agent without any runtime."""
    whole, bench = make_bench(Reference(steps=STEPS)), make_bench(Reference(steps=STEPS))
    assert whole.incarnation(Reference().strategy("restart", {})) == 0, whole.error
    for at in KILLS:
        assert bench.incarnation(deep_agents(5), at, type(bench).kill) == -signal.SIGKILL, (at, bench.error)
    assert bench.incarnation(deep_agents(5)) == 0, bench.error
    assert bench.final() == whole.final() == bench.reload(deep_agents(5))
    assert bench.points[-1].state == whole.points[-1].state
    assert bench.effects() == whole.effects() and all(bench.right_files().values())
    # What the model said is stored before it is acted on, but for its last word.
    assert requests(bench) - requests(whole) == Counter({LAST: 1})
    right = {p.step: p.state for p in bench.points if p.point == "after_commit" and p.state}
    resumed = [p for p in bench.points if p.point == "after_load"][1:]
    assert [p.step for p in resumed] == [4, 4, 4, 5, 5, LAST, STEPS]  # the writes are stored before the commit
    assert all(p.state == right[p.step - 1] for p in resumed)


def test_every_point_once_and_only_deltas_in_between(make_bench: Make) -> None:
    bench = make_bench(Reference(steps=STEPS))
    assert bench.incarnation(deep_agents()) == 0, bench.error
    wanted = [(phase, step) for step in range(STEPS) for phase in STEP_PHASES]
    assert [(p.point, p.step) for p in bench.points[2:-1]] == wanted
    states = [p.state for p in bench.points if p.point == "after_commit"]
    assert None not in states and len(set(states)) == STEPS
    with sqlite3.connect(bench.root / "durable/state.db") as database:
        writes = dict(database.execute("SELECT channel, count(*) FROM writes GROUP BY channel"))
    assert writes["messages"] == 2 * STEPS and writes["files"] == 2  # the goal; the table and the report


def test_files_come_back_from_the_state_and_others_do_not(make_bench: Make) -> None:
    bench = make_bench()
    bench.crashed(deep_agents(), "10/before_think", type(bench).evict)
    assert all(bench.right_files().values())  # the table is back, so that the engine could start and answer
    assert not (bench.root / "workspace/.gitignore").exists()  # a commit's: the agent did not write it with its tool


@pytest.mark.parametrize("which", [3, -1])
def test_a_lost_message_is_refused_by_the_model_endpoint(make_bench: Make, which: int) -> None:
    bench = make_bench(Reference(steps=STEPS))
    assert bench.incarnation(deep_agents(), "8/after_commit", type(bench).kill) == -signal.SIGKILL
    with sqlite3.connect(bench.root / "durable/state.db") as database:
        rows = database.execute("SELECT rowid FROM writes WHERE channel = 'messages' ORDER BY checkpoint_id").fetchall()
        database.execute("DELETE FROM writes WHERE rowid = ?", rows[which])
    assert bench.incarnation(deep_agents()) == 1
    assert "the model endpoint answered 400" in bench.error and "tool" in bench.error


def test_a_reply_survives_the_way_to_langchain_and_back() -> None:
    from chaos.targets.reference.agent import start
    from chaos.targets.reference.langchain_messages import from_wire, to_wire
    from chaos.targets.reference.workloads.quarterly_sales import GOAL, QuarterlySales

    said = QuarterlySales(3, STEPS, 50).reply(start(GOAL)["messages"])
    reply = Completion(Message(role="assistant", content=said.content, tool_calls=list(said.tool_calls)), 17)
    message = from_wire(reply, "an-id")
    assert message.id == "an-id" and to_wire(message) == reply.message
    assert message.usage_metadata and message.usage_metadata["total_tokens"] == 17
