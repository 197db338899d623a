"""The official SDK is the judge of Gemini's wire format; the brain must not see a difference."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.events.seen import Spoiled
from chaos.world import Reply, gemini, openai_chat
from chaos.world.malformed import How
from chaos.world.mishaps import Cut, Hold, Lose, Malform, Refuse
from chaos.world.openai_chat import Completion
from chaos.world.tokens import counted
from tests.world.conftest import failure

genai = pytest.importorskip("google.genai", reason="google-genai is not installed (pip install google-genai)")
types: Any = pytest.importorskip("google.genai.types")
errors: Any = pytest.importorskip("google.genai.errors")

GOAL = "find the price of tea"


@pytest.fixture
def client(stage: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a client that finds the world by its environment alone."""
    for name, value in stage.world.env().items():
        monkeypatch.setenv(name, value)
    with genai.Client() as client:
        yield client


def ask(client: Any, contents: Any = GOAL, **config: Any) -> Any:
    return client.models.generate_content(model="gemini-x", contents=contents, config=config or None)


def streamed(client: Any, contents: Any = GOAL) -> list[Any]:
    return list(client.models.generate_content_stream(model="gemini-x", contents=contents))


def results(*ids: str | None) -> Any:
    made = zip(ids, ({"result": "3 €"}, {"output": "2 €"}), strict=True)
    parts = [{"function_response": {"id": id, "name": "search", "response": response}} for id, response in made]
    return types.Content(role="user", parts=parts)


def test_plain_reply(client: Any, stage: Any) -> None:
    done = ask(client, "hello")
    assert (done.text, done.model_version, done.response_id) == ("turn 0: hello", "gemini-x", stage.asked[0].prompt)
    assert done.candidates[0].finish_reason == "STOP"
    usage = done.usage_metadata
    assert (usage.prompt_token_count, usage.candidates_token_count, usage.total_token_count) == (5, 4, 9)
    assert stage.asked[0].style == "gemini"


@pytest.mark.parametrize("ids", [("call_tea_0", "call_tea_1"), (None, None)], ids=["named", "unnamed"])
def test_function_calls_give_the_same_conversation_as_elsewhere(client: Any, stage: Any, ids: Any) -> None:
    first = ask(client, system_instruction="You help.")
    assert [(call.id, call.args) for call in first.function_calls] == [
        ("call_tea_0", {"query": "green tea price"}), ("call_tea_1", {"query": "black tea price"}),
    ]  # fmt: skip
    told = [types.Content(role="user", parts=[{"text": GOAL}]), first.candidates[0].content, results(*ids)]
    assert ask(client, told, system_instruction="You help.").text == "turn 1: 2 €"
    calls = [
        {"id": call.id, "function": {"name": call.name, "arguments": json.dumps(call.args, separators=(",", ":"))}}
        for call in first.function_calls
    ]
    theirs = [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": GOAL},
        {"role": "assistant", "content": "I will search.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_tea_0", "content": "3 €"},
        {"role": "tool", "tool_call_id": "call_tea_1", "content": "2 €"},
    ]
    body = json.dumps({"model": "m", "messages": theirs}).encode()
    stage.world.respond("POST", "/v1/chat/completions", http.client.HTTPMessage(), body)
    assert stage.asked[1].prompt == stage.asked[2].prompt and stage.asked[2].again


def test_functions_that_the_sdk_calls_by_itself(client: Any, stage: Any) -> None:
    def search(query: str) -> str:
        """Search."""
        return f"{query}: 2 €"

    assert ask(client, tools=[search]).text == "turn 1: black tea price: 2 €"
    assert [event.turn for event in stage.asked] == [0, 1] and all(event.tools for event in stage.asked)


@pytest.mark.parametrize("text", ["hello", "long", GOAL])
def test_streaming(client: Any, text: str) -> None:
    whole, chunks = ask(client, text), streamed(client, text)
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    said = whole.candidates[0].content.parts
    assert "".join(part.text or "" for part in parts) == "".join(part.text or "" for part in said)
    assert [p.function_call for p in parts if p.function_call] == [p.function_call for p in said if p.function_call]
    assert [chunk.candidates[0].finish_reason for chunk in chunks][-1] == "STOP"
    assert chunks[-1].usage_metadata == whole.usage_metadata


def refused(client: Any, kind: Any, ask: Callable[..., Any] = ask, contents: Any = GOAL) -> Any:
    with pytest.raises(kind) as caught:
        ask(client, contents)
    return caught.value


@pytest.mark.parametrize("how", [ask, streamed], ids=["whole", "streamed"])
def test_errors_are_the_sdks_own(client: Any, stage: Any, how: Any) -> None:
    stage.world.mishaps.arm(Refuse(retry_after=1.5))
    limited = refused(client, errors.ClientError, how)
    assert (limited.code, limited.status) == (429, "RESOURCE_EXHAUSTED")
    details = {one["@type"].rpartition(".")[2]: one for one in limited.details["error"]["details"]}
    assert details["RetryInfo"]["retryDelay"] == "1.5s" and "QuotaFailure" in details
    stage.world.mishaps.arm(Refuse(503, None))
    overloaded = refused(client, errors.ServerError, how)
    assert (overloaded.code, overloaded.status) == (503, "UNAVAILABLE")
    assert "details" not in overloaded.details["error"]
    stage.world.mishaps.arm(Refuse(quota=True))
    assert "credits are depleted" in refused(client, errors.ClientError, how).message
    stage.world.window.arm(4)
    long = refused(client, errors.ClientError, how)
    assert (long.code, long.status) == (400, "INVALID_ARGUMENT")
    assert "token count (9) exceeds the maximum number of tokens allowed (4)" in long.message
    assert [event.refused for event in stage.asked] == ["rate_limit", "overloaded", "quota", "context_length"]
    assert [event.retry_after for event in stage.asked] == [1.5, None, None, None]


@pytest.mark.parametrize("dropped", [True, False])
def test_a_cut_stream_has_no_finish_reason(client: Any, stage: Any, dropped: bool) -> None:
    chunks: list[Any] = []

    def cut() -> None:
        chunks.extend(client.models.generate_content_stream(model="gemini-x", contents="long"))

    stage.world.mishaps.arm(Cut(dropped=dropped, after=1.0))
    assert isinstance(failure(cut), Exception if dropped else type(None))
    assert not any(chunk.candidates[0].finish_reason for chunk in chunks)
    (event,) = [event for event in stage.journal.events if isinstance(event, Spoiled)]
    assert event.how == ("dropped" if dropped else "truncated") and event.sent_bytes < event.whole_bytes


def test_lost_and_held(client: Any, stage: Any) -> None:
    stage.world.mishaps.arm(Lose())
    assert failure(lambda: ask(client)) is not None
    stage.world.mishaps.arm(Hold(60))
    assert failure(lambda: ask(client, http_options={"timeout": 200})) is not None
    assert [event.spoiled for event in stage.asked] == ["lost", "held"]


def outcome(client: Any, how: Any) -> Any:
    try:
        done = how(client)
        chunks = done if isinstance(done, list) else [done]
        return [chunk.model_dump(exclude={"sdk_http_response"}) for chunk in chunks]
    except Exception as error:
        return error


@pytest.mark.parametrize("how", get_args(How))
@pytest.mark.parametrize("way", [ask, streamed], ids=["whole", "streamed"])
def test_malformed_replies(client: Any, stage: Any, how: How, way: Any) -> None:
    """What it raises is the SDK's business; what it returns is not what the model said."""
    right = outcome(client, way)
    assert isinstance(right, list)
    stage.world.mishaps.arm(Malform(how))
    wrong = outcome(client, way)
    assert wrong != right
    if how == "bad_arguments":
        (chunk,) = wrong
        (candidate,) = chunk["candidates"]
        assert candidate["finish_reason"] == "MALFORMED_FUNCTION_CALL" and candidate["content"] is None


CALL = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}


@pytest.mark.parametrize(
    ("contents", "reason", "journalled"),
    [
        ([{"parts": [{"text": "coffee"}]}], "knows nothing about coffee", 1),
        ([CALL], "equal to the number of function call parts", 1),
        ([{"parts": [{"functionResponse": {"name": "f", "response": {}}}]}], "immediately after a function call", 1),
        ([], "contents is not specified", 0),
        ("hi", r"\$.contents", 0),
        ([{"role": "robot", "parts": []}], r"contents\[0\]", 0),
        ([{"parts": [{"inlineData": {"mimeType": "image/png", "data": ""}}]}], "text only", 0),
        ([CALL | {"role": "user"}], "only a model calls", 0),
        ([{"role": "model", "parts": [{"functionResponse": {"name": "f"}}]}], "no function response", 0),
    ],
)
def test_refusals(stage: Any, contents: Any, reason: str, journalled: int) -> None:
    path = "/v1beta/models/gemini-x:generateContent"
    response = stage.world.respond("POST", path, http.client.HTTPMessage(), json.dumps({"contents": contents}).encode())
    error = json.loads(response.body)["error"]
    assert (response.status, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert re.search(reason, error["message"]), error["message"]
    assert [event.status for event in stage.asked] == [400] * journalled
    assert stage.world.failure is None


def test_other_methods_and_paths_are_refused_in_googles_way(client: Any, stage: Any) -> None:
    error = failure(lambda: client.models.count_tokens(model="m", contents="x"))
    assert (error.code, "Invalid URL" in error.message) == (404, True)  # type: ignore[union-attr]
    get = stage.world.respond("GET", "/v1beta/models/m:generateContent", http.client.HTTPMessage(), b"")
    assert get.status == 405 and "error" in json.loads(get.body)


def read(body: dict[str, Any]) -> tuple[Any, ...]:
    return gemini.parse(json.dumps(body).encode()).messages


def test_both_ways_of_writing_names_are_read() -> None:
    snake = {
        "system_instruction": {"parts": [{"text": "You help."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "a"}]},
            {"role": "model", "parts": [{"text": "hm", "thought": True}, {"function_call": {"name": "f"}}]},
            {"role": "user", "parts": [{"function_response": {"name": "f", "response": {"a": 1, "b": 2}}}]},
        ],
    }
    camel = json.loads(
        json.dumps(snake)
        .replace("system_instruction", "systemInstruction")
        .replace("function_call", "functionCall")
        .replace("function_response", "functionResponse")
    )
    assert read(snake) == read(camel)
    system, _, call, result = read(camel)
    assert (system["content"], "content" in call) == ("You help.", False), "a thought is not said"
    assert result == {"role": "tool", "tool_call_id": "f-0", "content": '{"a":1,"b":2}'}
    assert call["tool_calls"][0]["id"] == "f-0"


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
    (message,) = read({"contents": [json.loads(gemini.render(done))["candidates"][0]["content"]]})
    said = json.loads(openai_chat.render(done))["choices"][0]["message"]
    mine, theirs = counted(message), counted(said)
    assert mine.get("content") == theirs.get("content")
    assert [(c["id"], json.loads(c["function"]["arguments"])) for c in mine.get("tool_calls", ())] == [
        (c["id"], json.loads(c["function"]["arguments"])) for c in theirs.get("tool_calls", ())
    ]
    events = [json.loads(event.partition(b"data: ")[2]) for event in gemini.events(done)]
    parts = [part for event in events for part in event["candidates"][0]["content"]["parts"]]
    assert "".join(part.get("text", "") for part in parts) == content
