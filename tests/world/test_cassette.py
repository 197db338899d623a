"""What was recorded is read as it was said, in every provider's form, and found by what was asked and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.errors import HarnessError
from chaos.world import Message, Reply, anthropic_messages, gemini, openai_chat, openai_responses
from chaos.world.cassette import Cassette, Exchange
from chaos.world.openai_chat import Completion, Dialect
from chaos.world.said import said
from chaos.world.tokens import counted
from chaos.world.volatile import Volatile

DIALECTS: list[Any] = [openai_chat, openai_responses, anthropic_messages, gemini]
arguments = st.dictionaries(st.text(max_size=5), st.text(max_size=30), max_size=3)


def reply(content: str, *calls: dict[str, str]) -> Reply:
    made: Any = tuple(
        {"id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": compact(call)}}
        for number, call in enumerate(calls)
    )
    return Reply(content, made)


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def lines(dialect: Dialect, done: Completion) -> tuple[str, ...]:
    return tuple(event.decode().strip() for event in dialect.events(done))


@given(content=st.text(max_size=60), calls=st.lists(arguments, max_size=3), dialect=st.sampled_from(DIALECTS))
def test_what_was_said_is_read_whole_and_streamed(content: str, calls: list[dict[str, str]], dialect: Dialect) -> None:
    done = Completion("m", "p", reply(content, *calls), 1, 2)
    whole = said(dialect, json.loads(dialect.render(done)))
    assert whole is not None and whole.content == content
    assert [json.loads(call["function"]["arguments"]) for call in whole.tool_calls] == calls
    events = lines(dialect, done)
    assert said(dialect, None, events) == whole
    assert said(dialect, None, events[: -dialect.closing(done)]) is None, "it broke off"


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.__name__.rpartition(".")[2])
@pytest.mark.parametrize("body", [None, {}, [], "page", {"error": {"message": "no"}}, {"choices": []}, {"content": 3}])
def test_what_is_no_reply_says_nothing(dialect: Dialect, body: Any) -> None:
    assert said(dialect, body) is None
    assert said(dialect, None, ("data: {", "event: ping")) is None


def test_what_a_model_thought_is_not_said() -> None:
    thinking = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "yes"}]
    assert said(anthropic_messages, {"content": thinking}) == Reply("yes")
    parts = [{"text": "hm", "thought": True}, {"text": "yes", "thoughtSignature": "s"}]
    assert said(gemini, {"candidates": [{"content": {"parts": parts}}]}) == Reply("yes")
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]}
    assert said(openai_responses, {"output": [{"type": "reasoning", "id": "r", "summary": []}, message]}) == Reply(
        "yes"
    )


def exchange(messages: list[Any], content: str, status: int = 200) -> Exchange:
    body = {"choices": [{"message": {"role": "assistant", "content": content}}]}
    return Exchange("/v1/chat/completions", request={"model": "m", "messages": messages}, status=status, reply=body)


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def assistant(text: str) -> Any:
    return {"role": "assistant", "content": text}


TALK = [user("hi"), assistant("hello"), user("what time is it, at 12:31?"), assistant("late"), user("thanks")]
EXCHANGES = [exchange(TALK[:1], "hello"), exchange(TALK[:3], "late"), exchange(TALK, "bye")]


def test_the_same_again_gets_the_same_again() -> None:
    cassette = Cassette([*EXCHANGES, exchange(TALK, "not now", 429)])
    for number in (2, 0, 2, 1, 0):
        found = cassette.find(TALK[: 2 * number + 1])
        assert found is not None and (found.number, found.reply) == (number, Reply(["hello", "late", "bye"][number]))
    assert len(cassette) == 3 and cassette.ambiguous == 0


def test_of_several_answers_the_last_is_given_and_they_are_counted() -> None:
    cassette = Cassette([*EXCHANGES, exchange(TALK[:1], "welcome"), exchange(TALK[:1], "hello there")])
    found = cassette.find(TALK[:1])
    assert found is not None and (found.reply.content, found.number, cassette.ambiguous) == ("hello there", 0, 1)


def test_it_is_found_from_another_endpoint() -> None:
    body = {"model": "m", "max_tokens": 9, "messages": TALK[:3]}
    assert Cassette(EXCHANGES).find(anthropic_messages.parse(json.dumps(body).encode()).messages) is not None


def test_a_summary_is_known_only_if_it_was_recorded() -> None:
    summary = [user("(they greeted) what time is it?"), assistant("late"), user("thanks")]
    assert Cassette(EXCHANGES).find(summary) is None
    found = Cassette([*EXCHANGES, exchange(summary, "bye")]).find(summary)
    assert found is not None and found.number == 3, "it shows one answer, and came after three"


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ([*TALK[:2], user("what time is it, at 14:05?")],
         r"nearest, prompt 2 of 3: message 3 is '….*at 14:05\?' here, '….*at 12:31\?' there"),
        (TALK[:2], r"nearest, prompt 2 of 3: it has 3 messages and agrees with this one, of 2, up to 2"),
        ([*TALK, user("x")], r"nearest, prompt 3 of 3: it has 5 messages and agrees with this one, of 6, up to 5"),
        ([assistant("hi")], r"prompt 1 of 3: message 1 is 'assistant: hi' here, 'user: hi' there"),
    ],
)  # fmt: skip
def test_what_is_unknown_is_told_with_the_nearest(prompt: list[Message], told: str) -> None:
    cassette = Cassette(EXCHANGES, "talk.jsonl")
    assert cassette.find(prompt) is None
    text = cassette.unknown(prompt)
    assert re.search(told, text), text
    assert text.startswith("no such prompt in talk.jsonl; ") and "volatile_prompts" in text


def test_an_empty_one_says_so() -> None:
    assert "holds no answer" in Cassette([]).unknown(TALK)


def test_what_is_volatile_may_be_anything() -> None:
    other = [*TALK[:2], user("what time is it, at 14:05?")]
    cassette = Cassette(EXCHANGES, volatile=Volatile((r"\d\d:\d\d", "never")))
    found = cassette.find(other)
    assert found is not None and found.reply == Reply("late")
    assert cassette.find([*TALK[:2], user("what time is it, at noon?")]) is None


@given(
    texts=st.lists(st.text(alphabet="ab1:", max_size=8), min_size=1, max_size=4), calls=st.lists(arguments, max_size=2)
)
def test_masking_twice_is_masking_once_and_leaves_ids(texts: list[str], calls: list[dict[str, str]]) -> None:
    volatile = Volatile((r"\d+", "ab"))
    messages: list[Message] = [user(text) for text in texts]
    messages.append(counted({"role": "assistant", "tool_calls": list(reply("", *calls).tool_calls)}))
    once = volatile.masked(messages)
    assert volatile.masked(once) == once
    assert not any("1" in (message.get("content") or "") for message in once)
    ids = [[call["id"] for call in message.get("tool_calls", ())] for message in messages]
    assert [[call["id"] for call in message.get("tool_calls", ())] for message in once] == ids
    assert Volatile().masked(messages) is messages


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, r"none.jsonl: No such file or directory; `pytest-chaos record --to none.jsonl -- COMMAND` writes it"),
        ('{"path": "/"}\n{', r"none.jsonl:2: no exchange as `pytest-chaos record` writes them"),
        ('{"method": "GET"}', r"none.jsonl:1: .*path"),
    ],
)
def test_a_file_that_is_none_is_told(tmp_path: Path, text: str | None, told: str) -> None:
    path = tmp_path / "none.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(HarnessError, match=told):
        Cassette.read(path)
