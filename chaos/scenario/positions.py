"""Where in the file a value stands, and errors that show it.

A *loc* is the way to a value: ("faults", 0, "at", "step").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaos.errors import Kind, Problem, ScenarioError

Loc = tuple[str | int, ...]

MAX_PROBLEMS = 50  # more come from one mistake, and nobody reads them
EXCERPT_WIDTH = 100  # characters of the source line that are shown around the caret
LINE_BREAKS = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # what YAML counts as one, unlike str.splitlines


@dataclass(frozen=True, order=True)
class Mark:
    """A place in the text; both count from 0."""

    line: int
    column: int


@dataclass(frozen=True)
class Marks:
    """The places of all keys and values of one document."""

    keys: dict[Loc, Mark] = field(default_factory=dict)
    values: dict[Loc, Mark] = field(default_factory=dict)

    def find(self, loc: Sequence[str | int], *, key: bool = False) -> Mark:
        """Return the place of the deepest part of *loc* that the file has; of its *key* if that is wanted."""
        known: Loc = ()
        for part in loc:
            if (*known, part) in self.values:
                known = (*known, part)
        if key and known and known[-1] == loc[-1]:
            return self.keys.get(known, self.values[known])
        return self.values.get(known, Mark(0, 0))


class Problems:
    """Collects what is wrong with one scenario, so that all of it is told in one pass."""

    def __init__(self, path: Path, text: str = "") -> None:
        self.path = path
        self.marks = Marks()
        self._lines = LINE_BREAKS.split(text)
        self._found: dict[tuple[Mark, str], Kind] = {}
        self._spoiled: set[Loc] = set()

    def __len__(self) -> int:
        return len(self._found)

    def add(self, loc: Sequence[str | int], message: str, kind: Kind = Kind.VALUE, *, key: bool = False) -> None:
        """Note that what stands at *loc* (or its *key*) is wrong, unless no value could be made of it at all."""
        if not any(tuple(loc[:length]) in self._spoiled for length in range(1, len(loc) + 1)):
            self.add_at(self.marks.find(loc, key=key), message, kind)

    def spoil(self, loc: Loc, message: str, kind: Kind) -> None:
        """Note that there is no value at *loc* to speak of; what follows from that is not told."""
        self.add(loc, message, kind)
        self._spoiled.add(loc)

    def add_at(self, mark: Mark, message: str, kind: Kind) -> None:
        """Note what is wrong at *mark*; the same twice is noted once."""
        self._found.setdefault((mark, message), kind)

    def raise_if_any(self) -> None:
        """Raise ScenarioError with each problem, in the order of the file."""
        if not self._found:
            return
        found = sorted(self._found)
        told = [self._problem(*each) for each in found[:MAX_PROBLEMS]]
        if len(found) > MAX_PROBLEMS:
            kind = self._found[found[MAX_PROBLEMS]]
            told.append(Problem(str(self.path), 0, 0, f"and {len(found) - MAX_PROBLEMS} more", kind))
        raise ScenarioError(tuple(told))

    def _problem(self, mark: Mark, message: str) -> Problem:
        kind, excerpt = self._found[(mark, message)], self._excerpt(mark)
        return Problem(str(self.path), mark.line + 1, mark.column + 1, message, kind, excerpt)

    def _excerpt(self, mark: Mark) -> str:
        line = self._lines[mark.line] if mark.line < len(self._lines) else ""
        if not line.strip():
            return ""
        start = max(0, mark.column - EXCERPT_WIDTH // 2) if len(line) > EXCERPT_WIDTH else 0
        shown = "".join(char if char.isprintable() else " " for char in line[start : start + EXCERPT_WIDTH]).rstrip()
        return f"{mark.line + 1:>5} | {shown}\n      | {' ' * (mark.column - start)}^"
