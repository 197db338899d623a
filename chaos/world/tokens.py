"""What a conversation costs and how two conversations are compared: token counts and chain digests.

Only what the model would read counts: role, content, tool_calls and tool_call_id. A content that is absent, null
or empty is the same prompt. Tool schemas and sampling options are left out: they belong to the agent's code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from chaos.world import Message, Reply

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


def prefixes(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return the digest of the conversation up to each message; the last one is the prompt's.

    Each digest covers the one before it, so that two conversations agree on exactly the digests of their
    common beginning, and a longer conversation keeps all digests of the shorter one.
    """
    return tuple(_chain(messages))


def _chain(messages: Sequence[Message]) -> Iterator[str]:
    before = ""
    for message in messages:
        before = digest(before.encode() + canonical(counted(message)))
        yield before


def common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many messages two conversations have in common, from their prefixes."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


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
