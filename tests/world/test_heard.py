"""What is kept of requests that came before changes nothing about those that come."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.world import anthropic_messages, openai_chat
from chaos.world.heard import TALKS, Reader, common
from chaos.world.openai_chat import Malformed
from chaos.world.tokens import Talks

numbers = st.lists(st.integers(0, 2), max_size=12)


@given(numbers, numbers)
def test_what_two_lists_have_in_common(one: list[int], other: list[int]) -> None:
    pairs = zip(one, other, strict=False)
    assert common(one, other) == next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


@given(st.lists(numbers, max_size=3 * TALKS))
def test_messages_are_read_once_and_are_those_of_the_request(requests: list[list[int]]) -> None:
    read: list[tuple[int, bytes]] = []

    def note(index: int, raw: msgspec.Raw) -> tuple[int, int]:
        read.append((index, bytes(raw)))
        return index, msgspec.json.decode(raw)

    reader = Reader(note)
    for request in requests:
        raws = [msgspec.Raw(str(number).encode()) for number in request]
        assert reader.messages(raws) == list(enumerate(request))
        known = len(read)
        assert reader.messages(raws) == list(enumerate(request))
        assert len(read) == known, "the same again is not read again"


def test_only_what_is_new_is_read() -> None:
    read: list[int] = []
    reader = Reader(lambda index, raw: read.append(index))
    raws = [msgspec.Raw(str(number).encode()) for number in range(50)]
    for size in range(1, 51):
        reader.messages(raws[:size])
    reader.messages(raws[:7])  # rolled back
    assert read == list(range(50))


def body(*messages: Any) -> bytes:
    return msgspec.json.encode({"model": "m", "max_tokens": 5, "messages": messages})


GOOD = {"role": "user", "content": "hello"}


@pytest.mark.parametrize("dialect", [openai_chat, anthropic_messages])
@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"role": "user", "content": 7}, r"got `int` - at `\$.messages\[1\].content`"),
        ({"role": "nobody", "content": ""}, r"Invalid enum value 'nobody' - at `\$.messages\[1\].role`"),
        ("text", r"Expected `object`, got `str` - at `\$.messages\[1\]`"),
    ],
)
def test_a_wrong_message_is_told_with_its_place(dialect: Any, bad: Any, says: str) -> None:
    for _ in range(2):
        assert len(dialect.parse(body(GOOD)).messages) == 1
        with pytest.raises(Malformed, match=says):
            dialect.parse(body(GOOD, bad))


calls = st.builds(
    lambda ids: {
        "role": "assistant",
        "tool_calls": [{"id": one, "type": "function", "function": {"name": "f", "arguments": "{}"}} for one in ids],
    },
    st.lists(st.sampled_from("abc"), min_size=1, max_size=2),
)
results = st.builds(lambda one: {"role": "tool", "tool_call_id": one, "content": "done"}, st.sampled_from("abc"))
conversations: st.SearchStrategy[list[Any]] = st.lists(calls | results | st.just(GOOD), min_size=1, max_size=8)


@given(st.lists(conversations, min_size=1, max_size=4))
def test_calls_without_results_are_known_as_the_conversation_grows(heard: list[list[Any]]) -> None:
    talks = Talks()
    for messages in heard:
        for size in range(1, len(messages) + 1):
            assert talks.heard(messages[:size]).paired == (openai_chat.unpaired(messages[:size]) == "")
