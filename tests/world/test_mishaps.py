"""Replies that go wrong, as the official SDKs see them: they raise, retry and stay silent as with the providers."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, get_args

import anthropic
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.events.seen import Spoiled
from chaos.world import Reply, anthropic_messages, openai_chat
from chaos.world.malformed import How, malformed
from chaos.world.mishaps import Cut, Hold, Lose, Malform, Mishaps, Refuse, Window
from chaos.world.openai_chat import Completion, Dialect

HELLO: Any = [{"role": "user", "content": "hello"}]
LONG: Any = [{"role": "user", "content": "long"}]
TEA: Any = [{"role": "user", "content": "find the price of tea"}]


@pytest.fixture
def gpt(stage: Any) -> Iterator[openai.OpenAI]:
    env = stage.world.env()
    with openai.OpenAI(base_url=env["OPENAI_BASE_URL"], api_key=env["OPENAI_API_KEY"], max_retries=0) as client:
        yield client


@pytest.fixture
def claude(stage: Any) -> Iterator[anthropic.Anthropic]:
    env = stage.world.env()
    key = env["ANTHROPIC_API_KEY"]
    with anthropic.Anthropic(base_url=env["ANTHROPIC_BASE_URL"], api_key=key, max_retries=0) as client:
        yield client


def spoiled(stage: Any, count: int = 1) -> list[Spoiled]:
    """Return what went wrong; where a client gives up, the world needs a moment to see it."""
    for _ in range(200):
        found = [event for event in stage.journal.events if isinstance(event, Spoiled)]
        if len(found) >= count:
            break
        time.sleep(0.01)
    assert len(found) == count
    return found


def chat(client: openai.OpenAI, messages: Any = HELLO) -> Any:
    return client.chat.completions.create(model="m", messages=messages)


def text_of(client: openai.OpenAI) -> str:
    stream = client.chat.completions.create(model="m", messages=LONG, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream)


def test_a_used_up_quota_at_openai(gpt: openai.OpenAI, stage: Any) -> None:
    stage.world.mishaps.arm(Refuse(quota=True))
    with pytest.raises(openai.RateLimitError) as caught:
        chat(gpt)
    assert (caught.value.code, caught.value.type) == ("insufficient_quota", "insufficient_quota")
    assert "retry-after" not in caught.value.response.headers
    assert (stage.asked[0].status, stage.asked[0].refused, stage.asked[0].retry_after) == (429, "quota", None)


def test_a_used_up_quota_at_anthropic(claude: anthropic.Anthropic, stage: Any) -> None:
    stage.world.mishaps.arm(Refuse(quota=True))
    with pytest.raises(anthropic.BadRequestError, match="credit balance is too low") as caught:
        claude.messages.create(model="m", max_tokens=9, messages=HELLO)
    assert caught.value.response.json()["error"]["type"] == "invalid_request_error"
    assert stage.asked[0].refused == "quota"


def test_a_quota_is_used_up_for_one_incarnation(gpt: openai.OpenAI, stage: Any) -> None:
    stage.journal.attempt = 1
    stage.world.mishaps.arm_during(1, Refuse(quota=True))
    for _ in range(3):
        with pytest.raises(openai.RateLimitError):
            chat(gpt)
    stage.journal.attempt = 2
    assert chat(gpt).choices and stage.world.mishaps.remaining() == 0


def test_a_prompt_that_is_too_long(gpt: openai.OpenAI, claude: anthropic.Anthropic, stage: Any) -> None:
    stage.world.window.arm(4)
    with pytest.raises(openai.BadRequestError, match=r"length is 4 tokens.* resulted in 5") as caught:
        chat(gpt)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long: 5 tokens > 4 maximum"):
        claude.messages.create(model="m", max_tokens=9, messages=HELLO)
    assert [event.refused for event in stage.asked] == ["context_length"] * 2
    assert chat(gpt, [{"role": "user", "content": "x"}]).choices


def test_an_overload_without_a_word_is_retried_by_the_sdk(claude: anthropic.Anthropic, stage: Any) -> None:
    stage.world.mishaps.arm(Refuse(529, None))
    claude.with_options(max_retries=1).messages.create(model="m", max_tokens=9, messages=HELLO)
    assert [(e.status, e.refused, e.retry_after) for e in stage.asked] == [(529, "overloaded", None), (200, "", None)]


def test_what_the_journal_says_was_asked_is_what_the_headers_ask(stage: Any) -> None:
    for style, told in (("openai", 0.051), ("anthropic", 1.0)):
        stage.world.mishaps.arm(Refuse(retry_after=0.0501, style=style))
        path = "/v1/chat/completions"
        response = stage.world.respond("POST", path, http.client.HTTPMessage(), body(False))
        headers = dict(response.headers)
        exact = int(headers["retry-after-ms"]) / 1000 if style == "openai" else float(headers["retry-after"])
        assert exact == told == stage.asked[-1].retry_after


def body(stream: bool, messages: Any = LONG) -> bytes:
    return json.dumps({"model": "m", "messages": messages, "stream": stream}).encode()


def test_a_truncated_stream_raises_nothing_in_any_sdk(
    gpt: openai.OpenAI, claude: anthropic.Anthropic, stage: Any
) -> None:
    """The silent case: an agent that joins the pieces has half a text and no error."""
    whole = text_of(gpt)
    stage.world.mishaps.arm(Cut(dropped=False), 2)
    half = text_of(gpt)
    assert 0 < len(half) < len(whole) and whole.startswith(half)
    with claude.messages.stream(model="m", max_tokens=9, messages=LONG) as stream:
        assert whole.startswith("".join(stream.text_stream)) and stream.current_message_snapshot.stop_reason is None
    for event in spoiled(stage, 2):
        assert (event.how, event.status) == ("truncated", 200)
        assert 0 < event.sent_bytes < event.whole_bytes


def test_a_dropped_stream_is_an_error(gpt: openai.OpenAI, claude: anthropic.Anthropic, stage: Any) -> None:
    stage.world.mishaps.arm(Cut(dropped=True, after=0.3), 2)
    with pytest.raises(Exception, match=r"(?i)connection|reset|closed"):
        text_of(gpt)
    with (
        pytest.raises(Exception, match=r"(?i)connection|reset|closed|Errno"),
        claude.messages.stream(model="m", max_tokens=9, messages=LONG) as stream,
    ):
        stream.until_done()
    assert [event.how for event in spoiled(stage, 2)] == ["dropped"] * 2


def test_only_streams_are_cut(gpt: openai.OpenAI, stage: Any) -> None:
    stage.world.mishaps.arm(Cut(dropped=True))
    assert chat(gpt).choices
    assert stage.world.mishaps.remaining() == 1


def test_a_lost_reply_was_paid_for_and_is_paid_for_again(gpt: openai.OpenAI, stage: Any) -> None:
    stage.world.mishaps.arm(Lose())
    chat(gpt.with_options(max_retries=1))
    one, two = stage.asked
    assert (one.status, one.spoiled, one.again) == (200, "lost", False)
    assert (two.status, two.spoiled, two.again) == (200, "", True)
    assert one.tokens_out == two.tokens_out > 0
    (event,) = spoiled(stage)
    assert (event.link, event.path, event.sent_bytes, event.prompt) == ("model", "/v1/chat/completions", 0, one.prompt)


def test_a_held_reply_ends_when_the_client_gives_up(gpt: openai.OpenAI, stage: Any) -> None:
    stage.world.mishaps.arm(Hold(60.0))
    with pytest.raises(openai.APITimeoutError):
        chat(gpt.with_options(timeout=0.2))
    (event,) = spoiled(stage)
    assert event.how == "held" and 0.1 < event.held_seconds < 30
    assert stage.asked[0].spoiled == "held"


def test_closing_the_world_ends_what_it_holds(stage: Any) -> None:
    stage.world.mishaps.arm(Hold(60.0))
    connection = http.client.HTTPConnection("127.0.0.1", stage.world.port, timeout=10)
    connection.request("POST", "/v1/chat/completions", body(False))
    while not stage.asked:
        time.sleep(0.005)
    began = time.monotonic()
    stage.world.close()
    assert time.monotonic() - began < 1.0
    assert [event for event in stage.journal.events if isinstance(event, Spoiled)] == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("world")]
    connection.close()


def test_nobody_saw_what_happened_to_a_client_that_was_gone(stage: Any) -> None:
    stage.world.mishaps.arm(Malform("half"))
    stage.world.thinking = lambda turn: time.sleep(0.1)
    with socket.create_connection(("127.0.0.1", stage.world.port)) as client:
        sent = body(False)
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(sent) + sent)
    while not stage.asked:
        time.sleep(0.005)
    stage.world.close()
    assert stage.asked[0].spoiled == "half"
    assert [event for event in stage.journal.events if isinstance(event, Spoiled)] == []


@pytest.mark.parametrize("how", ["lost", "held"])
def test_a_service_does_its_work_without_an_answer(stage: Any, how: str) -> None:
    mishap = Lose() if how == "lost" else Hold(0.05)
    stage.world.mishaps.arm(mishap, link="services")
    for wrong in (True, False):
        connection = http.client.HTTPConnection("127.0.0.1", stage.world.port, timeout=5)
        connection.request("POST", "/services/tickets/create", b'{"a": 1}', {"Idempotency-Key": "k"})
        if wrong:
            with pytest.raises(OSError):
                connection.getresponse()
        else:
            answer = connection.getresponse()
            assert (answer.status, answer.headers["Idempotent-Replayed"]) == (201, "true")
        connection.close()
    assert [event.deduplicated for event in stage.effected] == [False, True]
    assert (spoiled(stage)[0].link, spoiled(stage)[0].how) == ("services", how)


def outcome(ask: Callable[[], Any]) -> Any:
    """Return what the SDK gives, or the error that it raises: for a stream without events, a bare AssertionError."""
    try:
        return ask().to_dict(warnings=False)
    except Exception as error:
        return error


@pytest.mark.parametrize("how", get_args(How))
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_malformed_replies_at_openai(gpt: openai.OpenAI, stage: Any, how: How, stream: bool) -> None:
    """What it raises is the SDK's business; what it returns is not what the model said."""

    def streamed() -> Any:
        with gpt.chat.completions.stream(model="m", messages=TEA) as events:
            return events.get_final_completion().choices[0].message

    def whole() -> Any:
        return chat(gpt, TEA).choices[0].message

    ask = streamed if stream else whole
    right = outcome(ask)
    assert isinstance(right, dict)
    stage.world.mishaps.arm(Malform(how))
    assert outcome(ask) != right
    (event,) = spoiled(stage)
    assert (event.how, event.status) == (how, 502 if how == "bad_gateway" else 200)


@pytest.mark.parametrize("how", get_args(How))
def test_malformed_replies_at_anthropic(claude: anthropic.Anthropic, stage: Any, how: How) -> None:
    def ask() -> Any:
        return claude.messages.create(model="m", max_tokens=9, messages=TEA)

    right = outcome(ask)
    assert isinstance(right, dict)
    stage.world.mishaps.arm(Malform(how))
    assert outcome(ask) != right
    assert spoiled(stage)[0].how == how


def completion(content: str, arguments: str) -> Completion:
    call: Any = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return Completion("m", "p", Reply(content, (call,)), 1, 2, include_usage=True)


@given(
    how=st.sampled_from(["not_json", "half", "bad_arguments"]),
    content=st.text(max_size=60),
    arguments=st.dictionaries(st.text(max_size=5), st.text(max_size=30), max_size=3),
    dialect=st.sampled_from([openai_chat, anthropic_messages]),
)
def test_what_is_called_no_json_is_none(how: How, content: str, arguments: dict[str, str], dialect: Dialect) -> None:
    done = completion(content, json.dumps(arguments))
    sent = malformed(how, dialect, done, streamed=False).body
    assert isinstance(sent, bytes)
    if how != "bad_arguments":
        with pytest.raises(ValueError):
            json.loads(sent)
        return
    told = json.loads(sent)
    texts = [block["input"] for block in told.get("content", ()) if block["type"] == "tool_use"]
    texts += [call["function"]["arguments"] for one in told.get("choices", ()) for call in one["message"]["tool_calls"]]
    for text in texts:
        with pytest.raises(ValueError):
            json.loads(text)


@given(st.lists(st.tuples(st.sampled_from([Lose(), Hold(1.0), Refuse()]), st.integers(0, 3)), max_size=6))
def test_mishaps_happen_in_the_order_in_which_they_were_armed(armed: list[tuple[Any, int]]) -> None:
    mishaps, found = Mishaps(), []
    for one, count in armed:
        mishaps.arm(one, count)
    assert mishaps.remaining() == sum(count for _, count in armed)
    while mishap := mishaps.take("model", 1, lambda one: True):
        found.append(mishap)
    assert found == [one for one, count in armed for _ in range(count)]
    assert mishaps.remaining() == 0 and mishaps.take("services", 1, lambda one: True) is None


@given(st.integers(1, 10_000), st.lists(st.integers(1, 20_000), min_size=1, max_size=5))
def test_a_window_is_a_bit_less_than_the_next_prompt(first: int, later: list[int]) -> None:
    window = Window()
    assert window.exceeded(first) is None
    window.arm(0)
    maximum = window.exceeded(first)
    assert (maximum is None) == (first == 1)  # nothing is less than one token
    assert maximum is None or (0 < maximum < first and maximum >= first * 0.9 - 1)
    for tokens in later:
        assert (window.exceeded(tokens) is not None) == (tokens > (maximum or 1))
