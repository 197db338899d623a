"""The agent's log: one fsynced line for each step, the first for the opening; each holds the end of a checksum chain.

A line has what its step added to the conversation and the whole small rest of the state, so that the log can be cut
back to any step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TypedDict, cast

from chaos.targets.reference.agent import Session, State, canonical
from chaos.targets.reference.history import FILE, Log, lines
from chaos.targets.reference.snapshot import CorruptStore
from chaos.world import Message

GENESIS = ""
"""The chain before the first line."""


class Entry(TypedDict):
    """What one line says: the *messages* that its step added, and the rest of the state after it."""

    messages: list[Message]
    goal: str
    steps: int
    tokens: int
    session: Session


class Line(TypedDict):
    """One line of the log; *chain* digests its entry and all before it."""

    chain: str
    entry: Entry


def read(folder: Path, count: int | None = None) -> list[Line]:
    """Return the first *count* complete lines of the log in *folder*, all by default.

    Raises:
        CorruptStore: a line is damaged, doubled or gone, or there are less than *count*.
    """
    log = lines(folder)
    if count is not None and len(log) < count:
        raise CorruptStore(f"{FILE} has {len(log)} lines, {count} belong to the manifest")
    found: list[Line] = []
    chain = GENESIS
    for number, text in enumerate(log[:count], 1):
        try:
            line = cast(Line, json.loads(text))
            chain = chained(chain, line["entry"])
            damaged = line["chain"] != chain
        except (ValueError, LookupError, TypeError):
            damaged = True
        if damaged:
            raise CorruptStore(f"line {number} of {FILE} is damaged, or one before it is gone or doubled")
        found.append(line)
    return found


def state_of(log: Sequence[Line]) -> State | None:
    """Return the state after the last line of *log*, None if it has none."""
    if not log:
        return None
    last = log[-1]["entry"]
    messages = [message for line in log for message in line["entry"]["messages"]]
    return State(
        goal=last["goal"], messages=messages, steps=last["steps"], tokens=last["tokens"], session=last["session"]
    )


class Steps:
    """The log in *folder*, open for appending, cut back to the lines of *kept*."""

    def __init__(self, folder: Path, kept: Sequence[Line]) -> None:
        self._log = Log(folder, len(kept))
        self._chain = kept[-1]["chain"] if kept else GENESIS

    def append(self, state: State, before: int, between: Callable[[], None] | None = None) -> Line:
        """Append the step that made *state* out of one with *before* messages, make it durable, and return its line.

        *between* runs when it is written and not yet durable.
        """
        entry = Entry(
            messages=state["messages"][before:],
            goal=state["goal"],
            steps=state["steps"],
            tokens=state["tokens"],
            session=state["session"],
        )
        self._chain = chained(self._chain, entry)
        line = Line(chain=self._chain, entry=entry)
        self._log.append(canonical(line), between)
        return line


def chained(chain: str, entry: Entry) -> str:
    """Return the end of the *chain* after *entry*."""
    return blake2b(chain.encode() + canonical(entry), digest_size=16).hexdigest()
