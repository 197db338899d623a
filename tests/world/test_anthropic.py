"""The official SDK is the judge of the wire format; the brain must not see a difference."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import anthropic
import pytest

from chaos.world import anthropic_messages, openai_chat
from chaos.world.mishaps import Mishaps, Refuse
from chaos.world.refusals import refusal

GOAL = "find the price of tea"
ASK: dict[str, Any] = {
    "model": "claude-x",
    "max_tokens": 100,
    "system": [{"type": "text", "text": "You help.", "cache_control": {"type": "ephemeral"}}],
    "messages": [{"role": "user", "content": GOAL}],
}
RESULTS: dict[str, Any] = {
    "role": "user",
    "content": [
        {"type": "tool_result", "tool_use_id": "call_tea_0", "content": "3 €"},
        {"type": "tool_result", "tool_use_id": "call_tea_1", "content": [{"type": "text", "text": "2 €"}]},
        {"type": "text", "text": "and now long"},
    ],
}


@pytest.fixture
def client(stage: Any) -> Iterator[anthropic.Anthropic]:
    env = stage.world.env()
    with anthropic.Anthropic(base_url=env["ANTHROPIC_BASE_URL"], api_key=env["ANTHROPIC_API_KEY"]) as client:
        yield client


def test_plain_reply(client: anthropic.Anthropic, stage: Any) -> None:
    done = client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "hello"}])
    assert [block.text for block in done.content if block.type == "text"] == ["turn 0: hello"]
    assert done.stop_reason == "end_turn"
    assert (done.usage.input_tokens, done.usage.output_tokens) == (5, 4)
    assert done._request_id == f"req_{stage.asked[0].prompt}"


def test_tool_use_round_trip(client: anthropic.Anthropic, stage: Any) -> None:
    first = client.messages.create(**ASK, extra_headers={"x-chaos-budget": "7"})
    assert first.stop_reason == "tool_use"
    assert [block.type for block in first.content] == ["text", "tool_use", "tool_use"]
    assert next(b.input for b in first.content if b.type == "tool_use") == {"query": "green tea price"}
    answer = {"role": "assistant", "content": [block.to_dict() for block in first.content]}
    client.messages.create(**ASK | {"messages": [*ASK["messages"], answer, RESULTS]})

    one, two = stage.asked
    assert (one.style, one.budget, one.goal, one.turn, two.turn) == ("anthropic", 7, GOAL, 0, 1)
    new = json.loads(bytes(two.messages))
    assert [message["role"] for message in new] == ["assistant", "tool", "tool", "user"]
    assert new[2] == {"role": "tool", "tool_call_id": "call_tea_1", "content": "2 €"}


def test_both_dialects_give_one_conversation(client: anthropic.Anthropic, stage: Any) -> None:
    first = client.messages.create(**ASK)
    answer = {"role": "assistant", "content": [block.to_dict() for block in first.content]}
    ours = anthropic_messages.parse(json.dumps(ASK | {"messages": [*ASK["messages"], answer, RESULTS]}).encode())
    calls = [
        {
            "id": b.id,
            "type": "function",
            "function": {"name": b.name, "arguments": json.dumps(b.input).replace(": ", ":")},
        }
        for b in first.content
        if b.type == "tool_use"
    ]
    theirs = openai_chat.parse(
        json.dumps(
            {
                "model": "claude-x",
                "messages": [
                    {"role": "developer", "content": "You help."},
                    {"role": "user", "content": GOAL},
                    {"role": "assistant", "content": "I will search.", "tool_calls": calls},
                    {"role": "tool", "tool_call_id": "call_tea_0", "content": "3 €"},
                    {"role": "tool", "tool_call_id": "call_tea_1", "content": "2 €"},
                    {"role": "user", "content": "and now long"},
                ],
            }
        ).encode()
    )
    assert ours.messages == theirs.messages


@pytest.mark.parametrize("text", ["hello", "long", GOAL])
def test_streaming(client: anthropic.Anthropic, text: str) -> None:
    request: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
    whole = client.messages.create(**request)
    with client.messages.stream(**request) as stream:
        events = [event.type for event in stream]
        done = stream.get_final_message()
    assert events[0] == "message_start" and events[-1] == "message_stop"
    assert [block.to_dict() for block in done.content] == [block.to_dict() for block in whole.content]
    assert (done.id, done.stop_reason, done.usage.output_tokens) == (
        whole.id, whole.stop_reason, whole.usage.output_tokens
    )  # fmt: skip


def test_rate_limit_is_retried_by_the_sdk(client: anthropic.Anthropic, stage: Any) -> None:
    stage.world.mishaps.arm(Refuse(retry_after=0.01))
    client.messages.create(**ASK)
    assert [(event.status, event.retry) for event in stage.asked] == [(429, 0), (200, 1)]


def test_rate_limit_without_retries(client: anthropic.Anthropic, stage: Any) -> None:
    stage.world.mishaps.arm(Refuse(retry_after=30))
    with pytest.raises(anthropic.RateLimitError) as caught:
        client.with_options(max_retries=0).messages.create(**ASK)
    assert caught.value.response.json()["error"]["type"] == "rate_limit_error"
    headers = caught.value.response.headers
    assert headers["retry-after"] == "30" and "retry-after-ms" not in headers
    wait = datetime.fromisoformat(headers["anthropic-ratelimit-requests-reset"]) - datetime.now(UTC)
    assert 25 < wait.total_seconds() <= 31


def test_the_clock_is_handed_in() -> None:
    made = refusal("anthropic", 429, 30.0, 1_700_000_000.25)
    assert dict(made.headers)["anthropic-ratelimit-requests-reset"] == "2023-11-14T22:13:51Z"
    assert made.retry_after == 30


@pytest.mark.parametrize("wrong", [{"retry_after": -1}, {"style": "gemini"}, {"status": 418}])
def test_a_refusal_checks_its_arguments(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"starts at 0|known:"):
        Refuse(**wrong)
    with pytest.raises(ValueError, match="start at 0"):
        Mishaps().arm(Refuse(), -1)


def test_overloaded(client: anthropic.Anthropic, stage: Any) -> None:
    stage.world.mishaps.arm(Refuse(529))
    with pytest.raises(anthropic.APIStatusError) as caught:
        client.with_options(max_retries=0).messages.create(**ASK)
    assert caught.value.status_code == 529
    assert caught.value.response.json()["error"]["type"] == "overloaded_error"


@pytest.mark.parametrize(
    ("more", "reason", "journalled"),
    [
        ({"messages": [{"role": "user", "content": "coffee"}]}, "knows nothing about coffee", 1),
        ({"messages": [RESULTS]}, "unexpected `tool_use_id`", 1),
        ({"messages": []}, "at least one message", 0),
        ({"messages": [{"role": "system", "content": "x"}]}, "role", 0),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "image", 0),
        ({"messages": [{"role": "assistant", "content": RESULTS["content"]}]}, "only be in `user`", 0),
    ],
)
def test_refusals(client: anthropic.Anthropic, stage: Any, more: dict[str, Any], reason: str, journalled: int) -> None:
    with pytest.raises(anthropic.BadRequestError, match=reason) as caught:
        client.messages.create(**ASK | more)
    assert caught.value.response.json()["error"]["type"] == "invalid_request_error"
    assert [event.status for event in stage.asked] == [400] * journalled
    assert stage.world.failure is None


def test_a_call_without_result_is_refused(client: anthropic.Anthropic) -> None:
    answer = {"role": "assistant", "content": [block.to_dict() for block in client.messages.create(**ASK).content]}
    with pytest.raises(anthropic.BadRequestError, match="without `tool_result` blocks immediately after: call_tea_0"):
        client.messages.create(**ASK | {"messages": [*ASK["messages"], answer]})


def test_unknown_path(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError) as caught:
        client.messages.count_tokens(model="m", messages=[{"role": "user", "content": "x"}])
    assert caught.value.response.json()["error"]["type"] == "not_found_error"
