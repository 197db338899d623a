"""A model that says what was recorded, for the conversations that it was recorded for and for no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from chaos.targets.command.script import Script
from chaos.world import Message, Reply
from chaos.world.cassette import Cassette
from chaos.world.volatile import Volatile

CASSETTES = 8  # that are kept read: a campaign has one, a test session a few


@dataclass(frozen=True)
class Recorded(Script):
    """A `Script` whose turns are those of *cassette*."""

    cassette: Cassette = field(default_factory=lambda: Cassette(()))

    def turn(self, messages: Sequence[Message]) -> int:
        """Return how many recorded prompts came before this one; where it is none, how many answers it shows."""
        known = self.cassette.find(messages)
        return known.number if known else sum(message["role"] == "assistant" for message in messages)

    def reply(self, messages: Sequence[Message]) -> Reply:
        """Return the recorded answer; ValueError that tells the nearest prompt if there is none."""
        known = self.cassette.find(messages)
        if known is None:
            raise ValueError(self.cassette.unknown(messages))
        return known.reply


def cassette(path: str, volatile: Volatile) -> Cassette:
    """Return the cassette in the file *path*; HarnessError that says what is wrong with it."""
    try:
        changed = Path(path).stat().st_mtime_ns
    except OSError:
        changed = 0
    return _read(path, volatile, changed)


@lru_cache(maxsize=CASSETTES)
def _read(path: str, volatile: Volatile, changed: int) -> Cassette:
    """Read it once for each time that it was *changed*."""
    return Cassette.read(Path(path), volatile)
