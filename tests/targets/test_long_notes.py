"""The workload is pure, grows evenly, and goes on from the newest messages alone."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.errors import ScenarioError
from chaos.targets.reference import Reference
from chaos.targets.reference.agent import Completion, State, done, fold, start, think, turns
from chaos.targets.reference.workloads import long_notes
from chaos.world import Brain, turn_of
from tests.targets.conftest import SEED

STEPS, LENGTH = 17, 600


def brain() -> Brain:
    return Reference(workload="long_notes", steps=STEPS, bytes_per_step=LENGTH).brain(SEED)


def states(window: int = 0) -> list[State]:
    """Return the states of a run without a sandbox, from the first to the last."""
    model, found = brain(), [start(long_notes.GOAL)]
    while not done(found[-1]):
        reply = model.reply(think(found[-1], window)["messages"])
        message: Any = {"role": "assistant", "content": reply.content}
        if reply.tool_calls:
            message["tool_calls"] = list(reply.tool_calls)
        found.append(fold(found[-1], Completion(message, 1), ["sources"] * len(reply.tool_calls)))
    return found


def test_a_run_has_the_steps_that_are_asked_for() -> None:
    assert [turns(state) for state in states()] == list(range(STEPS + 1))


@pytest.mark.parametrize("window", [2, 3, 4, 7])
def test_a_window_changes_nothing_but_the_prompt(window: int) -> None:
    assert states(window) == states()


def test_a_prompt_does_not_grow_beyond_its_window() -> None:
    for state in states():
        shown = think(state, 4)["messages"]
        assert len(shown) <= 6
        assert shown[:2] == state["messages"][:2]
        assert shown[2:] == state["messages"][len(state["messages"]) - len(shown) + 2 :]
        assert all(message["role"] != "tool" for message in shown[2:3])  # each result has its call before it


def test_the_world_knows_the_turn_from_a_window() -> None:
    assert [turn_of(brain(), think(state, 2)["messages"]) for state in states()] == list(range(STEPS + 1))


def test_each_step_adds_as_much_and_nothing_compresses_it() -> None:
    notes = [long_notes.text(SEED, turn, LENGTH) for turn in range(STEPS)]
    assert {len(note) for note in notes} == {LENGTH}
    assert len(zlib.compress("".join(notes).encode())) > 0.7 * STEPS * LENGTH  # six bits in each letter
    for before, after in zip(states(), states()[1:], strict=False):
        added = str(after["messages"][len(before["messages"]) :])
        assert LENGTH < len(added) < LENGTH + 400


def test_every_fourth_turn_writes_its_text_to_a_file_of_its_own() -> None:
    calls = [call["function"] for message in states()[-1]["messages"] for call in message.get("tool_calls", [])]
    assert [call["name"] == "write_file" for call in calls] == [turn % 4 == 3 for turn in range(STEPS - 1)]
    assert '"path": "notes/0004.md"' in calls[3]["arguments"]


@given(seed=st.integers(0, 2**32), turn=st.integers(0, 10_000), length=st.integers(0, 300))
def test_a_text_is_a_function_of_its_seed_and_turn(seed: int, turn: int, length: int) -> None:
    one = long_notes.text(seed, turn, length)
    long_notes.text.cache_clear()
    assert long_notes.text(seed, turn, length) == one
    assert len(one) == length and (one.isascii() and '"' not in one)


def test_a_conversation_that_is_over_or_without_its_goal_has_no_answer() -> None:
    with pytest.raises(ValueError, match="over: it has 17 of 17 turns"):
        brain().reply(states()[-1]["messages"])
    with pytest.raises(ValueError, match="the goal is gone"):
        brain().reply(states()[3]["messages"][2:])
    assert brain().serve("email", "send", {}).status == 404


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": -1, "workload": "long_notes"}, "window must not be negative (got -1)"),
        ({"window": 1, "workload": "long_notes"}, "window must be 0 (all messages) or at least 2 (got 1)"),
        ({"window": 4}, "quarterly_sales needs the whole conversation; window goes with long_notes only"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        Reference(**options)
    assert str(error.value) == message


def test_the_agent_really_does_it(make_bench: Callable[..., Any]) -> None:
    target = Reference(workload="long_notes", steps=STEPS, bytes_per_step=LENGTH, window=4)
    bench = make_bench(target)
    strategy = target.strategy("chat_history", {})
    bench.crashed(strategy, "9/before_think", lambda bench: bench.kill())
    assert bench.right_files() == {f"workspace/notes/{turn + 1:04}.md": True for turn in (3, 7, 11, 15)}
    assert [m for m in bench.final()["messages"] if m["role"] != "tool"] == [
        m for m in states()[-1]["messages"] if m["role"] != "tool"
    ]
    assert bench.asked_again() == 0
