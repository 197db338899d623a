"""The official SDK is the judge of the wire format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from chaos.world.mishaps import Refuse

GOAL = "find the price of tea"
ASK: list[Any] = [{"role": "system", "content": "You help."}, {"role": "user", "content": GOAL}]
RESULTS: list[Any] = [
    {"role": "tool", "tool_call_id": "call_tea_0", "content": "3 €"},
    {"role": "tool", "tool_call_id": "call_tea_1", "content": "2 €"},
]


def history(message: Any, *results: Any) -> list[Any]:
    return [*ASK, message.to_dict(), *results]


@pytest.fixture
def client(stage: Any) -> Iterator[openai.OpenAI]:
    env = stage.world.env()
    with openai.OpenAI(base_url=env["OPENAI_BASE_URL"], api_key=env["OPENAI_API_KEY"]) as client:
        yield client


def test_plain_reply(client: openai.OpenAI, stage: Any) -> None:
    done = client.chat.completions.create(model="gpt-x", messages=[{"role": "user", "content": "hello"}])
    assert done.choices[0].message.content == "turn 0: hello"
    assert done.choices[0].message.tool_calls is None
    assert done.choices[0].finish_reason == "stop"
    assert done.model == "gpt-x"
    assert done.usage is not None
    assert (done.usage.prompt_tokens, done.usage.completion_tokens, done.usage.total_tokens) == (5, 4, 9)
    assert done._request_id == f"req_{stage.asked[0].prompt}"
    assert done.id == f"chatcmpl-{stage.asked[0].prompt}"


def test_tool_calls_and_the_journal(client: openai.OpenAI, stage: Any) -> None:
    first = client.chat.completions.create(model="m", messages=ASK, metadata={"budget_steps": "7"})
    message = first.choices[0].message
    assert first.choices[0].finish_reason == "tool_calls"
    assert [call.id for call in message.tool_calls or ()] == ["call_tea_0", "call_tea_1"]
    client.chat.completions.create(model="m", messages=history(message, *RESULTS))
    client.chat.completions.create(model="m", messages=ASK)

    one, two, three = stage.asked
    assert [event.turn for event in stage.asked] == [0, 1, 0]
    assert [event.again for event in stage.asked] == [False, False, True]
    assert [event.budget for event in stage.asked] == [7, None, None]
    assert [event.goal for event in stage.asked] == [GOAL] * 3
    assert json.loads(bytes(one.messages)) == ASK
    assert [new["role"] for new in json.loads(bytes(two.messages))] == ["assistant", "tool", "tool"]
    assert json.loads(bytes(three.messages)) == []
    assert [(event.kept, len(event.added)) for event in stage.asked] == [(0, 2), (2, 3), (2, 0)]
    assert one.prompt == one.added[-1] == two.onto == three.onto == three.prompt
    assert one.opening == two.opening == three.opening == one.added[0]
    assert (one.status, one.style, one.retry) == (200, "openai", 0)
    assert one.tokens_in > 0 and one.tokens_out > 0


@pytest.mark.parametrize("text", ["hello", "long"])
def test_streamed_text(client: openai.OpenAI, text: str) -> None:
    whole = client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
    stream = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": text}], stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said == whole.choices[0].message.content
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage
    assert {chunk.id for chunk in chunks} == {whole.id}


def test_streamed_tool_calls(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="m", messages=ASK)
    with client.chat.completions.stream(model="m", messages=ASK) as stream:
        done = stream.get_final_completion()
    assert done.choices[0].finish_reason == "tool_calls"
    calls = [(c.id, c.function.name, c.function.arguments) for c in done.choices[0].message.tool_calls or ()]
    assert calls == [
        (c.id, c.function.name, c.function.arguments)
        for c in whole.choices[0].message.tool_calls or ()
        if c.type == "function"
    ]
    assert done.choices[0].message.content == "I will search."
    assert done.usage is None


def test_rate_limit_is_retried_by_the_sdk(client: openai.OpenAI, stage: Any) -> None:
    stage.world.mishaps.arm(Refuse(retry_after=0.02), 2)
    client.chat.completions.create(model="m", messages=ASK)
    assert [event.status for event in stage.asked] == [429, 429, 200]
    assert [event.retry for event in stage.asked] == [0, 1, 2]
    assert [event.again for event in stage.asked] == [False] * 3, "a refused prompt was not answered"
    assert [event.tokens_out > 0 for event in stage.asked] == [False, False, True]
    assert stage.world.mishaps.remaining() == 0


def test_rate_limit_without_retries(client: openai.OpenAI, stage: Any) -> None:
    stage.world.mishaps.arm(Refuse(retry_after=0.05))
    with pytest.raises(openai.RateLimitError) as caught:
        client.with_options(max_retries=0).chat.completions.create(model="m", messages=ASK)
    assert caught.value.code == "rate_limit_exceeded"
    assert caught.value.type == "requests"
    headers = caught.value.response.headers
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("1", "50")
    assert (headers["x-ratelimit-remaining-requests"], headers["x-ratelimit-reset-requests"]) == ("0", "50ms")
    assert "x-should-retry" not in headers


def test_overload(client: openai.OpenAI, stage: Any) -> None:
    stage.world.mishaps.arm(Refuse(503))
    with pytest.raises(openai.InternalServerError, match="overloaded"):
        client.with_options(max_retries=0).chat.completions.create(model="m", messages=ASK)
    assert stage.asked[0].status == 503


def test_a_gateway_serves_its_own_shape(client: openai.OpenAI, stage: Any) -> None:
    stage.world.mishaps.arm(Refuse(retry_after=3, style="anthropic"))
    with pytest.raises(openai.RateLimitError) as caught:
        client.with_options(max_retries=0).chat.completions.create(model="m", messages=ASK)
    assert caught.value.response.json()["error"]["type"] == "rate_limit_error"
    assert caught.value.response.headers["anthropic-ratelimit-requests-remaining"] == "0"


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([{"role": "user", "content": "coffee"}], "the script knows nothing about coffee"),
        ([*ASK, {"role": "tool", "tool_call_id": "call_x", "content": ""}], "must be a response to a preceding"),
    ],
)
def test_refused_conversations(client: openai.OpenAI, stage: Any, messages: Any, reason: str) -> None:
    with pytest.raises(openai.BadRequestError, match=reason) as caught:
        client.chat.completions.create(model="m", messages=messages)
    assert caught.value.type == "invalid_request_error"
    assert [event.status for event in stage.asked] == [400]
    assert stage.asked[0].tokens_out == 0


def test_a_call_without_result_is_refused(client: openai.OpenAI, stage: Any) -> None:
    message = client.chat.completions.create(model="m", messages=ASK).choices[0].message
    for rest in [], RESULTS[:1], [{"role": "user", "content": "and?"}, *RESULTS]:
        with pytest.raises(openai.BadRequestError, match=r"did not have response messages: .*call_tea_1"):
            client.chat.completions.create(model="m", messages=history(message, *rest))


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"messages": []}, "empty array"),
        ({"messages": "hi"}, r"\$.messages"),
        ({"messages": [{"role": "robot", "content": "hi"}]}, "role"),
        ({"messages": [{"role": "tool", "content": "hi"}]}, "tool_call_id"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "text only"),
        ({"messages": [{"role": "user", "content": "x", "tool_calls": [{}]}]}, "tool_calls"),
        ({"n": 2}, "one choice"),
        ({"metadata": {"budget_steps": "many"}}, "budget_steps"),
    ],
)
def test_malformed_requests(client: openai.OpenAI, stage: Any, more: dict[str, Any], reason: str) -> None:
    with pytest.raises(openai.BadRequestError, match=reason):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}], extra_body=more)
    assert stage.asked == []
    assert stage.world.failure is None


def test_content_parts_are_text(client: openai.OpenAI, stage: Any) -> None:
    parts: list[Any] = [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": parts}])
    assert stage.asked[1].again


def test_models_and_unknown_paths(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["scripted"]
    with pytest.raises(openai.NotFoundError, match="Invalid URL"):
        client.embeddings.create(model="m", input="x")


def test_a_mistake_of_the_brain_is_kept(client: openai.OpenAI, stage: Any) -> None:
    with pytest.raises(openai.InternalServerError, match="a mistake in the brain"):
        client.with_options(max_retries=0).chat.completions.create(
            model="m", messages=[{"role": "user", "content": "break"}]
        )
    assert isinstance(stage.world.failure, KeyError)
