"""What a conversation costs and how two conversations are compared: token counts and chain digests.

Only what the model would read counts: role, content, tool_calls and tool_call_id. A content that is absent, null
or empty is the same prompt. Tool schemas and sampling options are left out: they belong to the agent's code.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from chaos.world import Message, Reply
from chaos.world.heard import TALKS, common

BYTES_PER_TOKEN = 4  # the providers' own rule of thumb for English text
TOKENS_PER_MESSAGE = 3  # what OpenAI's chat format adds around each message
DIGEST_BYTES = 8  # one run compares thousands of conversations, not billions: 64 bits do not collide

_canonical = msgspec.json.Encoder(order="sorted")


def canonical(value: Any) -> bytes:
    """Return *value* as JSON with sorted keys and no spaces: equal values give equal bytes."""
    return _canonical.encode(value)


def digest(data: bytes) -> str:
    """Return the BLAKE2b digest of *data*, 8 bytes in hex."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def counted(message: Message) -> Message:
    """Return *message* reduced to what counts."""
    kept = Message(role=message["role"])
    if content := message.get("content"):
        kept["content"] = content
    if calls := message.get("tool_calls"):
        kept["tool_calls"] = calls
    if call_id := message.get("tool_call_id"):
        kept["tool_call_id"] = call_id
    return kept


class Talk:
    """A conversation, with its digests and its tokens up to each message; the last digest is the prompt's.

    Each digest covers the one before it, so that two conversations agree on exactly the digests of their common
    beginning, and a longer conversation keeps all digests of the shorter one.
    """

    def __init__(self, other: Talk | None = None, size: int = 0) -> None:
        """Begin with the first *size* messages of *other*."""
        self.messages: list[Message] = other.messages[:size] if other else []
        self.digests: list[str] = other.digests[:size] if other else []
        self.tokens: list[int] = other.tokens[:size] if other else []
        self.calls: list[tuple[str, ...] | None] = other.calls[:size] if other else []
        """The tool calls that have no result yet; None where one was left without, or a result had no call."""

    def extend(self, messages: Sequence[Message]) -> None:
        """Add *messages* at its end."""
        for message in messages:
            before = self.digests[-1] if self.digests else ""
            self.digests.append(digest(before.encode() + canonical(counted(message))))
            self.tokens.append((self.tokens[-1] if self.tokens else 0) + count_prompt((message,)))
            self.calls.append(_unanswered(self.calls[-1] if self.calls else (), message))
        self.messages += messages


class Prompt(NamedTuple):
    """The first *size* messages of *talk*."""

    talk: Talk
    size: int

    @property
    def digest(self) -> str:
        """The digest of the whole."""
        return self.talk.digests[self.size - 1]

    @property
    def tokens(self) -> int:
        """Its tokens."""
        return self.talk.tokens[self.size - 1]

    @property
    def paired(self) -> bool:
        """Whether each tool call has its result right after it."""
        return self.talk.calls[self.size - 1] == ()


class Talks:
    """The conversations heard last: of one that grows, only what is new is digested and counted. Thread-safe.

    What is kept is a function of the messages alone, so it holds for all runs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._talks: list[Talk] = []  # the latest first

    def heard(self, messages: Sequence[Message]) -> Prompt:
        """Return *messages*, of which there is at least one, with digests and tokens."""
        with self._lock:
            here = list(messages)
            shared, talk = max(
                ((common(here, talk.messages), talk) for talk in self._talks), key=itemgetter(0), default=(0, Talk())
            )
            if 0 < shared < min(len(here), len(talk.messages)):  # they part there
                talk = Talk(talk, shared)
            elif not shared:
                talk = Talk()
            talk.extend(here[shared:])
            self._talks = [talk, *(other for other in self._talks if other is not talk)][:TALKS]
            return Prompt(talk, len(here))


def _unanswered(calls: tuple[str, ...] | None, message: Message) -> tuple[str, ...] | None:
    """Return the calls that have no result after *message*, given those before it (see `Talk.calls`)."""
    if message["role"] == "tool":
        call_id = message.get("tool_call_id")
        if calls is None or call_id not in calls:
            return None
        place = calls.index(call_id)
        return calls[:place] + calls[place + 1 :]
    return None if calls != () else tuple(call["id"] for call in _calls(message))


def count(text: str) -> int:
    """Return the tokens of *text*: its UTF-8 bytes divided by 4, rounded up."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def count_prompt(messages: Sequence[Message]) -> int:
    """Return the tokens of a prompt: 3 for each message, its content, the names and arguments of its tool calls."""
    return sum(
        TOKENS_PER_MESSAGE
        + count(message.get("content") or "")
        + sum(count(call["function"]["name"]) + count(call["function"]["arguments"]) for call in _calls(message))
        for message in messages
    )


def count_reply(reply: Reply) -> int:
    """Return the tokens of a reply: its text, the names and arguments of its tool calls."""
    calls = (call["function"] for call in reply.tool_calls)
    return count(reply.content) + sum(count(function["name"]) + count(function["arguments"]) for function in calls)


def _calls(message: Message) -> Sequence[Any]:
    return message.get("tool_calls") or ()
