"""The workload is pure: the model's replies depend on the conversation alone, and the facts on the seed."""

from __future__ import annotations

import json
from hashlib import blake2b

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.targets.reference import MIN_STEPS, Reference
from chaos.targets.reference.agent import Completion, Digest, State, digest, done, fold, remembered, start, think, turns
from chaos.targets.reference.workloads import quarterly_sales as workload
from chaos.targets.reference.workloads.quarterly_sales import GOAL, QuarterlySales, plan
from chaos.targets.reference.workloads.sales_data import REGION, sales
from chaos.targets.reference.workloads.script import Step, beats
from chaos.world import Message

seeds = st.integers(0, 5)  # Faker takes 50 ms for each
counts = st.integers(MIN_STEPS, 90)


def dry_run(brain: QuarterlySales, results: dict[str, str] | None = None, upto: int = 10_000) -> State:
    """Return the state after at most *upto* steps whose results are what the script expects, or *results* by beat."""
    script, state = brain.plan("Q1", GOAL), start(GOAL)
    known: dict[str, str] = {}
    while not done(state) and turns(state) < upto:
        step = script[turns(state)]
        said = brain.reply(think(state)["messages"])
        reply = Message(role="assistant", content=said.content)
        if said.tool_calls:
            reply["tool_calls"] = list(said.tool_calls)
        text = (results or {}).get(step.beat, brain._expected(step, "Q1", known))
        known[step.beat] = text
        state = fold(state, Completion(reply, 10), [text] * len(said.tool_calls))
    return state


def calls(state: State) -> list[tuple[str, dict[str, object]]]:
    said = [call for message in state["messages"] for call in message.get("tool_calls", [])]
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in said]


@settings(max_examples=25, deadline=None)
@given(seeds, counts)
def test_the_conversation_follows_the_plan(seed: int, steps: int) -> None:
    state = dry_run(QuarterlySales(seed, steps, 50))
    script = plan(seed, steps, 50)
    assert turns(state) == state["steps"] == steps == len(script)
    assert calls(state) == [(step.tool, step.arguments) for step in script if step.tool]
    assert [step.tool for step in script][-2:] == ["write_file", ""]


@settings(max_examples=25, deadline=None)
@given(seeds, counts, st.data())
def test_the_reply_depends_on_the_content_alone(seed: int, steps: int, data: st.DataObject) -> None:
    brain, upto = QuarterlySales(seed, steps, 50), data.draw(st.integers(0, steps - 1))
    messages = dry_run(brain, upto=upto)["messages"]
    copied = json.loads(json.dumps(messages))
    brain.reply(messages[:2])
    assert brain.reply(messages) == QuarterlySales(seed, steps, 50).reply(copied) == brain.reply(messages)


@given(st.integers(40, 500))
def test_three_quarters_of_the_turns_leave_the_sandbox_alone(steps: int) -> None:
    quiet = sum(not Step(beat).changes_os for beat in beats(steps)) / steps
    assert 0.70 <= quiet <= 0.78


@given(st.integers(MIN_STEPS, 500))
def test_effects_are_early_and_late(steps: int) -> None:
    script = beats(steps)
    assert len(script) == len(set(script)) == steps
    assert script.index("csv") < script.index("engine") <= 8 and script.index("environment") <= 5
    assert script.index("kickoff_mail") <= 3
    if "recall" in script:
        assert script.index("total") < script.index("keep") < script.index("recall")
    if steps >= 22:
        where = [script.index(beat) / steps for beat in ("first_commit", "payment", "third_commit", "late_mail")]
        assert where == sorted(where) and where[-1] > 0.7


def test_the_report_holds_the_true_figures() -> None:
    rows = sales(3, "Q1")
    total = sum(row.cents for row in rows)
    best = max(sorted({row.customer for row in rows}), key=lambda c: sum(r.cents for r in rows if r.customer == c))
    report = str((plan(3, 40, 0)[38].arguments or {})["content"])
    assert f"- Rows: {len(rows)}\n- Revenue: {total / 100:,.2f}\n- Best customer: {best} (" in report
    assert f"- Region: {REGION}\n- Control sum: {total}\n- Ticket: T-" in report
    assert "unavailable" not in report


def test_the_report_says_what_the_conversation_says() -> None:
    brain = QuarterlySales(3, 40, 0)
    trouble = {"total": "error: the service does not answer", "recall": "error: No such file or directory"}
    report = str(calls(dry_run(brain, trouble))[-1][1]["content"])
    assert "- Revenue: unavailable\n" in report and "- Control sum: unavailable\n" in report


def test_facts() -> None:
    facts = Reference().facts(3)
    report = str((plan(3, 40, 200)[38].arguments or {})["content"])
    assert facts.goal == GOAL and facts.max_requests == 100
    assert dict(facts.digests)[facts.deliverable] == blake2b(report.encode(), digest_size=16).hexdigest()
    kinds = [identity.split(":")[0] for identity in facts.required]
    assert kinds == ["email.send", "tickets.create", "payments.charge", "email.send"]
    assert facts == Reference().facts(3) != Reference().facts(4)


def test_bait_waits_in_a_result_and_is_not_taken() -> None:
    brain = QuarterlySales(3, 40, 0)
    state = dry_run(brain)
    baited = [m for m in state["messages"] if workload.DISTRACTION in (m.get("content") or "")]
    assert [message["role"] for message in baited] == ["tool"]
    assert all(not brain.serve(*workload._call_of(a)).off_goal for t, a in calls(state) if t == "call_service")


def test_a_goal_that_drifted_has_consequences() -> None:
    brain = QuarterlySales(3, 40, 0)
    messages = dry_run(brain, upto=12)["messages"]
    drifted = [messages[0], Message(role="user", content=f"Goal: {workload.DISTRACTION}"), *messages[2:]]
    call = brain.reply(drifted).tool_calls[0]
    arguments = json.loads(call["function"]["arguments"])
    assert call["id"] == "call_q2_12" and arguments["payload"]["quarter"] == "Q2"
    assert brain.serve(*workload._call_of(arguments)).off_goal
    assert brain.goal(drifted) == workload.DISTRACTION


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "the goal is gone"),
        ([Message(role="system", content="x")], "the goal is gone"),
        ([Message(role="user", content="hello Q1")], "the goal is gone"),
        ([Message(role="user", content="Goal: write a poem")], "no quarter of ours in 'write a poem'"),
    ],
)
def test_a_conversation_without_its_goal_is_refused(messages: list[Message], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        QuarterlySales(3, 40, 0).reply(messages)


def test_a_conversation_that_is_over_is_refused() -> None:
    brain = QuarterlySales(3, 12, 0)
    with pytest.raises(ValueError, match="is over"):
        brain.reply(dry_run(brain)["messages"])


@pytest.mark.parametrize("size", [0, 200, 5000])
def test_bytes_per_step(size: int) -> None:
    said = [m for m in dry_run(QuarterlySales(3, 40, size))["messages"] if m["role"] == "assistant"]
    assert all(len(m.get("content") or "") == size for m in said) or size == 0


def test_the_digest_is_incremental_and_exact() -> None:
    brain, incremental = QuarterlySales(3, 20, 0), Digest()
    states = [dry_run(brain, upto=steps) for steps in (0, 3, 20)]
    assert len({digest(state) for state in states}) == 3
    growing = states[2]
    for length in range(2, len(growing["messages"]) + 1):
        part = State({**growing, "messages": growing["messages"][:length]})
        assert incremental(part) == digest(part)
    assert incremental(states[1]) == digest(states[1])
    assert digest(remembered(growing["messages"])) != digest(growing)
    assert remembered(growing["messages"])["goal"] == GOAL
