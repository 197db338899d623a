"""The hand-off: what it carries, and that the model goes on from it as from the conversation that it stands for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.targets.reference import handoff
from chaos.targets.reference.agent import ERROR, Completion, State, done, fold, start, think, turns
from chaos.targets.reference.handoff import Handoff
from chaos.targets.reference.workloads.quarterly_sales import GOAL, QuarterlySales, next_turn
from chaos.world import Message

STEPS = 24
BRAIN = QuarterlySales(3, STEPS, 50)

texts = st.text(max_size=20)
handoffs = st.builds(
    Handoff,
    turns=st.integers(0, 500),
    summary=texts,
    decisions=st.lists(texts),
    key_data=st.dictionaries(texts, texts),
    errors=st.lists(texts),
)


def worked(state: State, upto: int, results: dict[str, str] | None = None) -> State:
    """Return *state* after *upto* turns in all, with the results of a run without trouble but for *results* by beat."""
    script, known = BRAIN.plan("Q1", GOAL), dict[str, str]()
    for step in script:
        known[step.beat] = (results or {}).get(step.beat, BRAIN._expected(step, "Q1", known))
    while turns(state) < upto and not done(state):
        text = known[script[turns(state)].beat]
        said = BRAIN.reply(think(state)["messages"])
        reply = Message(role="assistant", content=said.content)
        if said.tool_calls:
            reply["tool_calls"] = list(said.tool_calls)
        state = fold(state, Completion(reply, 10), [text] * len(said.tool_calls))
    return state


def handed(state: State, given: Handoff) -> State:
    return State({**state, "messages": [*start(GOAL)["messages"], handoff.message(given)]})


def made(state: State) -> Handoff:
    return handoff.made(1, turns(state), state["messages"], ERROR)


@given(handoffs)
def test_a_message_carries_it_whole(given: Handoff) -> None:
    messages = [*start(GOAL)["messages"], handoff.message(given)]
    assert handoff.found(messages) == given
    assert handoff.turns_before(messages) == given["turns"]
    assert BRAIN.goal(messages) == GOAL


def test_an_ordinary_conversation_has_none() -> None:
    messages = worked(start(GOAL), STEPS)["messages"]
    assert handoff.found(messages) is None and handoff.turns_before(messages) == 0
    assert BRAIN.turn(messages) == STEPS


@settings(max_examples=30, deadline=None)
@given(st.integers(0, STEPS - 2), st.integers(0, STEPS - 2), st.integers(0, STEPS - 1))
def test_the_model_goes_on_as_if_it_had_seen_all(one: int, other: int, upto: int) -> None:
    """Whatever is handed over, once or twice: every later turn is what the whole conversation leads to."""
    whole, cut = worked(start(GOAL), upto), start(GOAL)
    for boundary in sorted((one, other)):
        if boundary <= upto:
            cut = worked(cut, boundary)
            cut = handed(cut, made(cut))
    cut = worked(cut, upto)
    assert turns(cut) == turns(whole) == BRAIN.turn(cut["messages"]) == next_turn(cut["messages"]) == upto
    assert BRAIN.reply(cut["messages"]) == BRAIN.reply(whole["messages"])


def test_a_summary_alone_leaves_the_report_without_its_figures() -> None:
    halfway = worked(start(GOAL), STEPS // 2)
    complete, lossy = (handed(halfway, h) for h in (made(halfway), handoff.summary_only(made(halfway))))
    reports = [BRAIN.reply(worked(state, STEPS - 2)["messages"]).tool_calls[0] for state in (complete, lossy)]
    assert [report["id"] for report in reports] == [f"call_q1_{STEPS - 2}"] * 2
    arguments = [report["function"]["arguments"] for report in reports]
    assert "unavailable" not in arguments[0] and "- Rows: 0\\n- Revenue: unavailable" in arguments[1]


def test_it_has_decisions_data_and_errors_and_no_bulk() -> None:
    state = worked(start(GOAL), STEPS // 2, {"install": "error: no such wheel"})
    given = made(state)
    assert given["decisions"][:2] == ["write_file data/q1.csv", "cd analysis"]
    assert given["errors"] == ["call_q1_6 (install_package): error: no such wheel"]
    assert "call_q1_0" in given["key_data"] and "rows" in given["key_data"]["call_q1_0"]
    search = [
        c["id"] for m in state["messages"] for c in m.get("tool_calls", []) if "search" in c["function"]["arguments"]
    ]
    assert search and not given["key_data"].keys() & set(search)


@pytest.mark.parametrize("text", ["{", "[]", '{"turns":"3"}', '{"turns":1,"summary":"","decisions":[],"errors":[]}'])
def test_what_makes_no_sense_is_refused(text: str) -> None:
    messages = [*start(GOAL)["messages"], Message(role="user", content=handoff.PREFIX + text)]
    with pytest.raises(ValueError):
        handoff.found(messages)
    with pytest.raises(ValueError):
        BRAIN.reply(messages)
    assert BRAIN.turn(messages) == 0


def test_key_data_are_texts() -> None:
    given = Handoff(turns=1, summary="", decisions=[], key_data={"call_q1_0": 3}, errors=[])  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="key data"):
        handoff.found([handoff.message(given)])
