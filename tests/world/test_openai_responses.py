"""The official SDK is the judge of the wire format of the Responses API; the brain must not see a difference."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, get_args

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.events.seen import Spoiled
from chaos.world import Reply, openai_chat, openai_responses
from chaos.world.malformed import How
from chaos.world.mishaps import Cut, Hold, Lose, Malform, Refuse
from chaos.world.openai_chat import Completion
from chaos.world.tokens import counted
from tests.world.conftest import failure

GOAL = "find the price of tea"
ASK: list[Any] = [{"role": "developer", "content": "You help."}, {"role": "user", "content": GOAL}]
RESULTS: list[Any] = [
    {"type": "function_call_output", "call_id": "call_tea_0", "output": "3 €"},
    {"type": "function_call_output", "call_id": "call_tea_1", "output": [{"type": "input_text", "text": "2 €"}]},
]


@pytest.fixture
def client(stage: Any) -> Iterator[openai.OpenAI]:
    env = stage.world.env()
    with openai.OpenAI(base_url=env["OPENAI_BASE_URL"], api_key=env["OPENAI_API_KEY"], max_retries=0) as client:
        yield client


def test_plain_reply(client: openai.OpenAI, stage: Any) -> None:
    done = client.responses.create(model="gpt-x", input="hello", metadata={"budget_steps": "7"})
    assert (done.output_text, done.status, done.model) == ("turn 0: hello", "completed", "gpt-x")
    assert done.usage is not None
    assert (done.usage.input_tokens, done.usage.output_tokens, done.usage.total_tokens) == (5, 4, 9)
    assert (done._request_id, done.id) == (f"req_{stage.asked[0].prompt}", f"resp_{stage.asked[0].prompt}")
    assert (stage.asked[0].style, stage.asked[0].budget) == ("openai", 7)
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
    assert stage.asked[1].again, "another endpoint of the same conversation"


def test_both_endpoints_give_one_conversation(client: openai.OpenAI, stage: Any) -> None:
    first = client.responses.create(model="m", input=ASK)
    assert [item.type for item in first.output] == ["message", "function_call", "function_call"]
    done = client.responses.create(model="m", input=[*ASK, *(item.to_dict() for item in first.output), *RESULTS])  # type: ignore[list-item]
    assert done.output_text == "turn 1: 2 €"
    chat = client.chat.completions.create(model="m", messages=ASK).choices[0].message
    results: Any = [
        {"role": "tool", "tool_call_id": "call_tea_0", "content": "3 €"},
        {"role": "tool", "tool_call_id": "call_tea_1", "content": "2 €"},
    ]
    client.chat.completions.create(model="m", messages=[*ASK, chat.to_dict(), *results])
    assert [event.turn for event in stage.asked] == [0, 1, 0, 1]
    assert stage.asked[1].prompt == stage.asked[3].prompt and stage.asked[3].again


@pytest.mark.parametrize("text", ["hello", "long", GOAL])
def test_streaming(client: openai.OpenAI, text: str) -> None:
    whole = client.responses.create(model="m", input=text)
    with client.responses.stream(model="m", input=text) as stream:
        events = list(stream)
        done = stream.get_final_response()
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    numbers = [event.sequence_number for event in client.responses.create(model="m", input=text, stream=True)]
    assert numbers == list(range(len(numbers)))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole.output_text
    said = [{key: value for key, value in item.to_dict().items() if key != "parsed_arguments"} for item in done.output]
    assert [item["type"] for item in said] == [item.type for item in whole.output]
    assert (done.id, done.output_text, done.usage) == (whole.id, whole.output_text, whole.usage)
    calls = [(c.call_id, c.name, c.arguments) for c in whole.output if c.type == "function_call"]
    assert [(c.call_id, c.name, c.arguments) for c in done.output if c.type == "function_call"] == calls


def test_errors_are_the_sdks_own(client: openai.OpenAI, stage: Any) -> None:
    stage.world.mishaps.arm(Refuse(retry_after=0.05))
    with pytest.raises(openai.RateLimitError) as limited:
        client.responses.create(model="m", input=ASK)
    assert (limited.value.code, limited.value.response.headers["retry-after-ms"]) == ("rate_limit_exceeded", "50")
    stage.world.mishaps.arm(Refuse(503))
    with pytest.raises(openai.InternalServerError, match="overloaded"):
        client.responses.create(model="m", input=ASK)
    stage.world.window.arm(4)
    with pytest.raises(openai.BadRequestError, match="exceeds the context window") as long:
        client.responses.create(model="m", input=ASK)
    assert (long.value.code, long.value.param) == ("context_length_exceeded", "input")
    assert [event.refused for event in stage.asked] == ["rate_limit", "overloaded", "context_length"]


def test_a_stream_is_refused_and_retried_by_the_sdk(client: openai.OpenAI, stage: Any) -> None:
    stage.world.mishaps.arm(Refuse(retry_after=0.01))
    stream = client.with_options(max_retries=1).responses.create(model="m", input="hello", stream=True)
    assert [event.type for event in stream][-1] == "response.completed"
    assert [(event.status, event.retry) for event in stage.asked] == [(429, 0), (200, 1)]


@pytest.mark.parametrize("dropped", [True, False])
def test_a_cut_stream_never_completes(client: openai.OpenAI, stage: Any, dropped: bool) -> None:
    kinds: list[str] = []

    def ask() -> None:
        kinds.extend(event.type for event in client.responses.create(model="m", input="long", stream=True))

    stage.world.mishaps.arm(Cut(dropped=dropped, after=1.0))
    assert isinstance(failure(ask), Exception if dropped else type(None))
    assert "response.completed" not in kinds
    (event,) = [event for event in stage.journal.events if isinstance(event, Spoiled)]
    assert event.how == ("dropped" if dropped else "truncated") and event.sent_bytes < event.whole_bytes


def test_lost_and_held(client: openai.OpenAI, stage: Any) -> None:
    stage.world.mishaps.arm(Lose())
    assert isinstance(failure(lambda: client.responses.create(model="m", input=ASK)), openai.APIConnectionError)
    stage.world.mishaps.arm(Hold(60))
    late = client.with_options(timeout=0.2)
    assert isinstance(failure(lambda: late.responses.create(model="m", input=ASK)), openai.APITimeoutError)
    assert [event.spoiled for event in stage.asked] == ["lost", "held"]


def outcome(ask: Callable[[], Any]) -> Any:
    try:
        return [item.to_dict(warnings=False) for item in ask().output]
    except Exception as error:
        return error


@pytest.mark.parametrize("how", get_args(How))
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_malformed_replies(client: openai.OpenAI, stage: Any, how: How, streamed: bool) -> None:
    """What it raises is the SDK's business; what it returns is not what the model said."""

    def ask() -> Any:
        if not streamed:
            return client.responses.create(model="m", input=GOAL)
        with client.responses.stream(model="m", input=GOAL) as events:
            return events.get_final_response()

    right = outcome(ask)
    assert isinstance(right, list)
    stage.world.mishaps.arm(Malform(how))
    assert outcome(ask) != right


@pytest.mark.parametrize(
    ("more", "reason", "journalled"),
    [
        ({"input": "coffee"}, "knows nothing about coffee", 1),
        ({"input": [*ASK, RESULTS[0]]}, "No tool call found for function call output with call_id call_tea_0", 1),
        ({"previous_response_id": "resp_1"}, r"Previous response with id 'resp_1' not found.*whole conversation", 0),
        ({"conversation": "conv_1"}, "Conversation not found", 0),
        ({"background": True}, "background", 0),
        ({"input": []}, "at least one message", 0),
        ({"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}, "at least one message", 0),
        ({"input": [{"role": "robot", "content": "hi"}]}, r"input\[0\]", 0),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "Item with id 'msg_1' not found", 0),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "text only", 0),
        ({"input": [{"type": "web_search_call", "id": "x"}]}, r"input\[0\]", 0),
        ({"metadata": {"budget_steps": "many"}}, "budget_steps", 0),
    ],
)
def test_refusals(client: openai.OpenAI, stage: Any, more: dict[str, Any], reason: str, journalled: int) -> None:
    with pytest.raises(openai.BadRequestError, match=reason):
        client.responses.create(model="m", input="x", extra_body=more)
    assert [event.status for event in stage.asked] == [400] * journalled
    assert stage.world.failure is None


def test_a_result_may_come_late_but_it_must_come(client: openai.OpenAI, stage: Any) -> None:
    first = [item.to_dict() for item in client.responses.create(model="m", input=ASK).output]
    between = {"role": "user", "content": "and?"}
    late: Any = [*ASK, *first, RESULTS[1], between, RESULTS[0]]
    assert client.responses.create(model="m", input=late).output_text
    with pytest.raises(openai.BadRequestError, match="No tool output found for function call call_tea_0"):
        client.responses.create(model="m", input=late[:-1])


def read(*items: dict[str, Any]) -> tuple[Any, ...]:
    return openai_responses.parse(json.dumps({"model": "m", "input": items}).encode()).messages


def test_a_turn_of_the_model_is_one_message() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": ""}
    text = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hm"}]}
    thought = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"}
    assert read(thought, text, call, output) == read(call, thought, text, output) == read(text, call, output)
    assert [message["role"] for message in read(text, call, output)] == ["assistant", "tool"]
    assert [message["role"] for message in read(text, text)] == ["assistant", "assistant"]


@given(
    content=st.text(max_size=60),
    calls=st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=30), max_size=3), max_size=3),
)
def test_what_is_said_is_read_as_it_was_said(content: str, calls: list[dict[str, str]]) -> None:
    made: Any = tuple(
        {"id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": json.dumps(arguments)}}
        for number, arguments in enumerate(calls)
    )
    done = Completion("m", "p", Reply(content, made), 1, 2)
    (message,) = read(*json.loads(openai_responses.render(done))["output"])
    said = json.loads(openai_chat.render(done))["choices"][0]["message"]
    assert counted(message) == counted(said)
    events = [json.loads(event.partition(b"data: ")[2]) for event in openai_responses.events(done)]
    assert events[-1]["response"] == json.loads(openai_responses.render(done))
    assert "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta") == content
