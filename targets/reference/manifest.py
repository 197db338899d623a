"""The manifest of the `cow` strategy: which messages, which snapshot and which counters belong to one step.

history.jsonl       the messages, each line with the end of a chain of checksums
cow/objects, trees  snapshots of the files, by step, where the content store keeps them (see `media`)
cow/taken           the newest step that the half outside the sandbox has a snapshot of
cow/manifest.json   the newest complete step, replaced as a whole
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

from chaos.targets.reference.agent import State, canonical
from chaos.targets.reference.history import FILE, Log, lines
from chaos.targets.reference.snapshot import CorruptStore
from chaos.world import Message

GENESIS = ""
"""The chain before the first line."""

# The opening and the messages of step 0: a kill may leave these without a manifest, more lines mean that it is lost.
LINES_BEFORE_MANIFEST = 2


@dataclass(frozen=True)
class Stored:
    """The newest complete *step*. *lines* of the log belong to it, *chain* is where their checksums end."""

    step: int
    state: State
    lines: int
    chain: str


def folder(durable: Path) -> Path:
    """Return the folder of manifest and snapshots."""
    return durable / "cow"


def chained(chain: str, messages: Sequence[Message]) -> str:
    """Return the end of the *chain* after *messages*."""
    return blake2b(chain.encode() + canonical(messages), digest_size=16).hexdigest()


def append(log: Log, chain: str, messages: Sequence[Message]) -> str:
    """Append a line with *messages* to *log* and return the new end of the *chain*."""
    chain = chained(chain, messages)
    log.append(canonical({"chain": chain, "messages": messages}))
    return chain


def publish(durable: Path, step: int, count: int, chain: str, state: State, between: Callable[[], None]) -> None:
    """Make *step* complete at once; *between* runs when all is durable but the manifest's name."""
    kept = {"goal": state["goal"], "steps": state["steps"], "tokens": state["tokens"], "session": state["session"]}
    body = canonical({"step": step, "state": kept, "lines": count, "chain": chain})
    folder(durable).mkdir(exist_ok=True)
    fresh = folder(durable) / "manifest.json.new"
    with open(fresh, "wb") as file:
        file.write(_checksum(body) + b"\n" + body)
        file.flush()
        os.fsync(file.fileno())
    between()
    fresh.rename(folder(durable) / "manifest.json")
    directory = os.open(folder(durable), os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def read(durable: Path) -> Stored | None:
    """Return the newest complete step, None if there is none; raise CorruptStore if anything is not as it was."""
    kept, log = _newest(durable), lines(durable)
    if kept is None:
        if len(log) > LINES_BEFORE_MANIFEST:
            raise CorruptStore(f"{FILE} has {len(log)} lines but there is no manifest")
        return None
    messages, chain = _messages(log, kept["lines"])
    if chain != kept["chain"]:
        raise CorruptStore(f"{FILE} is not the log that the manifest was made with")
    rest = kept["state"]
    state = State(
        goal=rest["goal"], messages=messages, steps=rest["steps"], tokens=rest["tokens"], session=rest["session"]
    )
    return Stored(kept["step"], state, kept["lines"], chain)


def newest(durable: Path) -> int | None:
    """Return the number of the newest complete step, None if there is none; raise CorruptStore if it cannot be told."""
    kept = _newest(durable)
    return None if kept is None else int(kept["step"])


def _newest(durable: Path) -> dict[str, Any] | None:
    path = folder(durable) / "manifest.json"
    if not path.exists():
        return None
    checksum, _, body = path.read_bytes().partition(b"\n")
    if checksum != _checksum(body):
        raise CorruptStore("the manifest is damaged")
    return cast("dict[str, Any]", json.loads(body))


def _messages(log: Sequence[bytes], count: int) -> tuple[list[Message], str]:
    """Return the messages of the first *count* lines and the end of their chain."""
    if len(log) < count:
        raise CorruptStore(f"{FILE} has {len(log)} lines, {count} belong to the manifest")
    messages: list[Message] = []
    chain = GENESIS
    for number, line in enumerate(log[:count], 1):
        try:
            stored = json.loads(line)
            chain = chained(chain, stored["messages"])
            damaged = stored["chain"] != chain
        except (ValueError, LookupError, TypeError):
            damaged = True
        if damaged:
            raise CorruptStore(f"line {number} of {FILE} is damaged")
        messages += stored["messages"]
    return messages, chain


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).hexdigest().encode()
