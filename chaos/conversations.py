"""The conversations of a run's requests, put together from what each of them brought that was new.

Each digest covers the one before it (see `chaos.world.tokens`), so the digest up to a message names the whole
beginning: conversations are the paths of a tree of digests, and those that only grow are one line of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from chaos.events.seen import Asked
    from chaos.mask import Json


@dataclass(eq=False)
class _Line:
    """Digests that follow each other, after the first *begin* ones of the line *base*."""

    base: _Line | None = None
    begin: int = 0
    digests: list[str] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.begin + len(self.digests)

    def at(self, place: int) -> str:
        line: _Line | None = self
        while line is not None and place < line.begin:
            line = line.base
        return line.digests[place - line.begin] if line else ""


@dataclass(frozen=True)
class Conversation:
    """What one request showed the model, as digests of its beginnings: item n is that of the first n + 1 messages.

    *chained*: each digest covers the one before it.
    """

    line: _Line
    size: int
    chained: bool = True

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, place: int) -> str:
        if not 0 <= place < self.size:
            raise IndexError(f"no message {place} in a conversation of {self.size}")
        return self.line.at(place)

    def __iter__(self) -> Iterator[str]:
        return map(self.line.at, range(self.size))

    def parts(self, other: Conversation) -> int | None:
        """Return the number of the first message that differs from *other*'s; None if one begins with the other."""
        begin, end = 0, min(self.size, other.size)
        if not (self.chained and other.chained):
            return next((place for place in range(end) if self[place] != other[place]), None)
        if not end or self[end - 1] == other[end - 1]:
            return None
        while begin < end - 1:  # they agree below *begin*, and differ at *end* - 1
            middle = (begin + end) // 2
            begin, end = (middle, end) if self[middle - 1] == other[middle - 1] else (begin, middle)
        return begin


class Conversations:
    """The conversations of *requests*, which are in their order.

    Args:
        before: what they may go on from besides each other; left as it is.
    """

    def __init__(self, requests: Iterable[Asked], before: Conversations | None = None) -> None:
        self._before = before
        self._known: dict[str, tuple[_Line, int]] = {}  # the line with that digest, and how many it covers
        self._brought: dict[str, tuple[Asked, int]] = {}  # the request that brought the message, and its number there
        self._messages: dict[str, Json] = {}
        self._bare: dict[str, bytes] = {"": b""}
        for request in requests:
            self._add(request)

    def of(self, request: Asked) -> Conversation:
        """Return the conversation of *request*, which is one of them."""
        if request.prefixes:
            return Conversation(_Line(digests=list(request.prefixes)), len(request.prefixes), chained=False)
        size = request.kept + len(request.added)
        line, known = self._find(request.prompt) or (_Line(), 0)
        return Conversation(line, size) if known == size else Conversation(_Line(begin=size), size)

    def message(self, digest: str) -> Json:
        """Return the last message of the beginning that *digest* names; None if nobody brought it."""
        if digest not in self._messages and digest in self._brought:
            request, _ = self._brought[digest]
            self._messages |= zip(request.added, msgspec.json.decode(request.messages), strict=False)
        if digest not in self._messages:
            return self._before.message(digest) if self._before else None
        return self._messages[digest]

    def messages(self) -> dict[str, Json]:
        """Return all messages by digest."""
        return {**(self._before.messages() if self._before else {}), **self._messages} | {
            digest: self.message(digest) for digest in self._brought
        }

    def bare(self, conversation: Conversation) -> bytes:
        """Return a digest of the messages of *conversation* but those of the system."""
        if not conversation.chained:
            messages = (self.message(digest) for digest in conversation)
            return b"".join(msgspec.json.encode(one, order="sorted") for one in messages if not _is_system(one))
        places = range(conversation.size - 1, -1, -1)
        done = next((place for place in places if conversation[place] in self._bare), -1)
        digest = self._bare[conversation[done] if done >= 0 else ""]
        for place in range(done + 1, conversation.size):
            message = self.message(conversation[place])
            if not _is_system(message):
                digest = blake2b(digest + msgspec.json.encode(message, order="sorted")).digest()
            self._bare[conversation[place]] = digest
        return digest

    def _find(self, digest: str) -> tuple[_Line, int] | None:
        return self._known.get(digest) or (self._before._find(digest) if self._before else None)

    def _add(self, request: Asked) -> None:
        if request.prefixes:
            new = msgspec.json.decode(request.messages)
            if isinstance(new, list) and 0 < len(new) <= len(request.prefixes):
                self._messages |= zip(request.prefixes[-len(new) :], new, strict=True)
            return
        line, size = (self._find(request.onto) if request.kept else None) or (_Line(begin=request.kept), request.kept)
        for number, digest in enumerate(request.added):
            if found := self._find(digest):
                line, size = found
                continue
            if size < line.end or (line.digests and not self._is_own(line)):  # others go on there otherwise
                while line.base is not None and size <= line.begin:
                    line = line.base
                line = _Line(line, size)
            line.digests.append(digest)
            size += 1
            self._known[digest] = line, size
            self._brought[digest] = request, number

    def _is_own(self, line: _Line) -> bool:
        return line.digests[0] in self._known


def _is_system(message: Json) -> bool:
    return isinstance(message, dict) and message.get("role") == "system"
