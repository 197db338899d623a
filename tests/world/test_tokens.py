from __future__ import annotations

import tempfile
from email.message import Message as Headers
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.events.seen import Asked
from chaos.journal import Journal
from chaos.record import Record
from chaos.world import Answer, Message, Reply
from chaos.world.heard import TALKS
from chaos.world.mishaps import Refuse
from chaos.world.server import World
from chaos.world.tokens import Talks, count, count_prompt, count_reply

texts = st.text('a \\"ü€😀', max_size=9)
few = st.sampled_from(["", "a", "b", "ü"])  # a small alphabet, so that equal conversations happen
calls = st.builds(
    lambda i, name, arguments: {"id": i, "type": "function", "function": {"name": name, "arguments": arguments}},
    few, few, few,
)  # fmt: skip
message: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant"])},
    optional={"content": st.none() | few | texts, "tool_calls": st.lists(calls, max_size=2)},
)
conversation = st.lists(message, min_size=1, max_size=6)


def plain(messages: list[Message]) -> list[tuple[Any, ...]]:
    return [(m["role"], m.get("content") or "", m.get("tool_calls") or []) for m in messages]


def prefixes(messages: list[Message], talks: Talks | None = None) -> tuple[str, ...]:
    prompt = (talks or Talks()).heard(messages)
    return tuple(prompt.talk.digests[: prompt.size])


@given(conversation, conversation)
def test_digests_agree_exactly_on_the_common_beginning(one: list[Message], other: list[Message]) -> None:
    a, b = plain(one), plain(other)
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    assert prefixes(one)[:same] == prefixes(other)[:same]
    assert not set(prefixes(one)[same:]) & set(prefixes(other)[same:])


@given(conversation, conversation)
def test_an_extension_keeps_the_prefixes(one: list[Message], more: list[Message]) -> None:
    assert prefixes([*one, *more])[: len(one)] == prefixes(one)


@given(st.lists(conversation, max_size=2 * TALKS), st.data())
def test_what_was_heard_before_changes_nothing(heard: list[list[Message]], data: st.DataObject) -> None:
    talks = Talks()
    for one in heard:
        longer = one + data.draw(st.sampled_from(heard))
        for messages in (one, longer, longer[: data.draw(st.integers(1, len(longer)))]):
            assert prefixes(messages, talks) == prefixes(messages)
            assert talks.heard(messages).tokens == count_prompt(messages)
            assert talks.heard(messages).digest == prefixes(messages)[-1]


@given(message, texts)
def test_only_what_the_model_reads_counts(one: Any, noise: str) -> None:
    more: Any = {**one, "name": noise, "refusal": None}
    assert prefixes([one]) == prefixes([more])


def test_digests_are_stable_over_versions() -> None:
    asked: list[Message] = [{"role": "user", "content": "hello"}]
    assert prefixes(asked) == prefixes([{"content": "hello", "role": "user"}])
    assert prefixes([{"role": "user"}]) == prefixes([{"role": "user", "content": None, "tool_calls": []}])
    assert prefixes([]) == ()
    assert prefixes(asked) == ("67c8065fa6cd83db",)


@given(texts, texts)
def test_tokens_count_bytes(a: str, b: str) -> None:
    assert 4 * count(a) - 3 <= len(a.encode()) <= 4 * count(a)
    assert count(a + b) <= count(a) + count(b) <= count(a + b) + 1


def test_tokens_of_calls() -> None:
    call: Any = {"id": "c", "type": "function", "function": {"name": "four", "arguments": "12345678"}}
    assert count_reply(Reply("", (call,))) == 3
    assert count_prompt([{"role": "user", "content": "1"}, {"role": "assistant", "tool_calls": [call]}]) == 4 + 6


class Echo:
    def reply(self, messages: Any) -> Reply:
        if len(messages) == 6:
            raise ValueError("too long")
        return Reply("ok")

    def goal(self, messages: Any) -> str:
        return ""

    def serve(self, service: str, operation: str, payload: Any) -> Answer:
        raise NotImplementedError


@settings(max_examples=50)
@given(st.lists(st.tuples(st.lists(st.sampled_from("ab"), min_size=1, max_size=6), st.booleans()), max_size=8))
def test_again_and_new_messages(requests: list[tuple[list[str], bool]]) -> None:
    """Whatever the order of requests: *again* is told exactly for answered prompts, and the journal has it all."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "j")
        world = World(Echo(), journal)
        for letters, limited in requests:
            world.mishaps.arm(Refuse(), int(limited))
            messages = [{"role": "user", "content": letter} for letter in letters]
            body = msgspec.json.encode({"model": "m", "messages": messages})
            world.respond("POST", "/v1/chat/completions", Headers(), body)
        journal.close()
    answered: set[tuple[str, ...]] = set()
    run = Record(journal.events)
    known: set[tuple[str, ...]] = set()
    for (letters, limited), event in zip(requests, journal.events, strict=True):
        assert isinstance(event, Asked)
        assert event.status == (429 if limited else 400 if len(letters) == 6 else 200)
        assert event.again == (tuple(letters) in answered)
        rebuilt = [run.message(digest) for digest in run.prefixes(event)]
        assert [m["content"] for m in rebuilt if isinstance(m, dict)] == letters, "rebuilt from the journal alone"
        assert event.kept == max((n for n in range(len(letters) + 1) if tuple(letters[:n]) in known), default=0)
        assert len(msgspec.json.decode(event.messages)) == len(event.added) == len(letters) - event.kept
        known |= {tuple(letters[:n]) for n in range(1, len(letters) + 1)}
        if event.status == 200:
            answered.add(tuple(letters))
