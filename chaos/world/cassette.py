"""What a model said, recorded and given again, addressed by the conversation that it said it to.

A cassette is a file with one JSON line for each exchange with a provider, in the provider's own form. An answer is
found by the digest of its prompt, never by a counter: an agent that was rolled back asks again and gets the same one.
A prompt that shows a summary where it showed messages before is another prompt, and known if it was recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import msgspec

from chaos.errors import HarnessError
from chaos.world import Message, Reply
from chaos.world.dialects import dialect_of, parsed
from chaos.world.heard import common
from chaos.world.openai_chat import Malformed
from chaos.world.said import said
from chaos.world.tokens import canonical, counted, digest
from chaos.world.volatile import Volatile

SHOWN_CHARS = 60  # of each text, from a bit before the place where two of them differ
BEFORE_CHARS = 15  # of these: enough to find the place


class Exchange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request and what came back.

    Args:
        path: of the request, with its query.
        headers: of the request.
        request: its JSON body.
        status: of the reply; 0 if none came.
        reply: its JSON body, unless it is a stream.
        events: of a stream, as they came, without the empty line after each.
        text: of a reply that is neither.
    """

    path: str
    method: str = "POST"
    headers: Mapping[str, str] = {}
    request: Any = None
    status: int = 0
    reply: Any = None
    events: tuple[str, ...] = ()
    text: str = ""

    def prompt(self) -> tuple[Message, ...] | None:
        """Return the conversation that a model was asked with, None if there is none that can be read."""
        path = self.path.partition("?")[0]
        if self.method != "POST" or (dialect := dialect_of(path)) is None:
            return None
        try:
            return parsed(path, dialect, msgspec.json.encode(self.request)).messages
        except Malformed:
            return None

    def said(self) -> Reply | None:
        """Return what the model said, None if it did not, or not to the end."""
        dialect = dialect_of(self.path.partition("?")[0])
        return said(dialect, self.reply, self.events) if dialect and self.status == 200 else None


@dataclass(frozen=True)
class Recorded:
    """A prompt, masked and reduced to what counts, with its answer. *number*: how many others were answered before."""

    number: int
    prompt: tuple[Message, ...]
    reply: Reply


class Cassette:
    """The answered prompts of *exchanges*; of several answers to one prompt, the last: it is the one that was used.

    Args:
        name: of the file, for errors.
        volatile: what may differ in a prompt that is the same.
    """

    def __init__(
        self, exchanges: Iterable[Exchange], name: str = "the cassette", volatile: Volatile | None = None
    ) -> None:
        self._name = name
        self._volatile = volatile or Volatile()
        self._recorded: dict[str, Recorded] = {}
        self.ambiguous = 0
        """Prompts that were answered in several ways."""
        several = set[str]()
        for exchange in exchanges:
            messages, reply = exchange.prompt(), exchange.said()
            if messages is None or reply is None:
                continue
            prompt = self._steady(messages)
            key = digest(canonical(prompt))
            before = self._recorded.get(key)
            if before and before.reply != reply:
                several.add(key)
            self._recorded[key] = Recorded(before.number if before else len(self._recorded), prompt, reply)
        self.ambiguous = len(several)

    @classmethod
    def read(cls, path: Path, volatile: Volatile | None = None) -> Self:
        """Return the cassette in the file *path*; raise HarnessError that says what is wrong with it."""
        return cls(exchanges(path), path.name, volatile)

    def __len__(self) -> int:
        return len(self._recorded)

    def find(self, messages: Sequence[Message]) -> Recorded | None:
        """Return what was recorded for the prompt *messages*, None if nothing was."""
        return self._recorded.get(digest(canonical(self._steady(messages))))

    def unknown(self, messages: Sequence[Message]) -> str:
        """Return why there is no answer to the prompt *messages*: how it differs from the nearest recorded one."""
        prompt = self._steady(messages)
        if not self._recorded:
            return f"{self._name} holds no answer of a model: record the agent's run with `pytest-chaos record`"
        nearest = max(
            self._recorded.values(),
            key=lambda one: (common(prompt, one.prompt), -abs(len(one.prompt) - len(prompt)), -one.number),
        )
        place = common(prompt, nearest.prompt)
        here, there = (_text(one[place]) if place < len(one) else "" for one in (prompt, nearest.prompt))
        if here and there:
            one, other = _shown(here, there)
            difference = f"message {place + 1} is {one} here, {other} there"
        else:
            difference = (
                f"it has {len(nearest.prompt)} messages and agrees with this one, of {len(prompt)}, up to {place}"
            )
        return (
            f"no such prompt in {self._name}; of the nearest, prompt {nearest.number + 1} of {len(self)}: {difference}"
            ". Record the agent again, or name what may differ in target.command.volatile_prompts"
        )

    def _steady(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        return tuple(counted(message) for message in self._volatile.masked(messages))


def exchanges(path: Path) -> list[Exchange]:
    """Return the exchanges in the file *path*; raise HarnessError that says what is wrong with it."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise HarnessError(
            f"{path}: {error.strerror}; `pytest-chaos record --to {path.name} -- COMMAND` writes it"
        ) from None
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(msgspec.json.decode(line, type=Exchange))
        except msgspec.MsgspecError as error:
            raise HarnessError(f"{path}:{number}: no exchange as `pytest-chaos record` writes them: {error}") from None
    return found


def _text(message: Message) -> str:
    """Return *message* as one text."""
    told = {key: value for key, value in message.items() if key not in ("role", "content")}
    return " ".join(
        filter(None, (f"{message['role']}:", message.get("content"), canonical(told).decode() if told else ""))
    )


def _shown(one: str, other: str) -> tuple[str, str]:
    """Return both texts around the place where they differ."""
    begin = max(0, common(one, other) - BEFORE_CHARS)
    return _cut(one, begin), _cut(other, begin)


def _cut(text: str, begin: int) -> str:
    end = begin + SHOWN_CHARS
    return repr(f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}")
