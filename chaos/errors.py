"""What can go wrong, in three families.

* ChaosError
  - ScenarioError    the scenario is wrong: the user can fix it, nothing was started
    - UnknownName    no such fault, check, strategy, target, ...
  - HarnessError     the harness could not run: the machine or we are at fault

The third family is no exception: an agent that does not recover is a Verdict.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What is wrong with a scenario, as the last part of its code: `scenario.unknown-field` (see `chaos.codes`)."""

    DUPLICATE = "duplicate"
    EXPECTATION = "expectation"  # what is said to break contradicts itself, or says nothing
    EXPRESSION = "expression"  # inside of ${{ }}
    MISSING_FIELD = "missing-field"
    NO_VALUE = "no-value"
    PLACE = "place"  # `at:` or `vary:` make no sense
    REFUSED_OPTION = "refused-option"  # by the plug-in that it is for
    RESERVED_TAG = "reserved-tag"  # means something to pytest
    SYNTAX = "syntax"  # no YAML
    TYPE = "wrong-type"
    UNKNOWN_FIELD = "unknown-field"
    UNKNOWN_NAME = "unknown-name"
    UNREADABLE = "unreadable"  # the file
    UNUSED_YAML = "unused-yaml"  # YAML that scenarios do without: anchors, tags, keys that are no text
    VALUE = "wrong-value"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a scenario.

    Args:
        file: as it was given.
        line, column: from 1; 0 where it is a matter of the file as a whole.
        excerpt: the line and a caret below it, to be printed under the message; "" if there is nothing to see.
    """

    file: str
    line: int
    column: int
    message: str
    kind: Kind = Kind.VALUE
    excerpt: str = ""

    def text(self, code: str = "") -> str:
        """Return it as a block of lines, the first one with its *code*, if that is given."""
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        head = f"{place}: {self.message}{f' [{code}]' if code else ''}"
        return f"{head}\n{self.excerpt}" if self.excerpt else head


class ChaosError(Exception):
    """Base class; catch this to catch everything that the harness raises on purpose."""


class ScenarioError(ChaosError):
    """A scenario does not say what it needs to say. The message has one block for each problem.

    Args:
        said: the message, or the *problems* of one file that it is made of.
    """

    def __init__(self, said: str | tuple[Problem, ...]) -> None:
        self.problems: tuple[Problem, ...] = () if isinstance(said, str) else said
        super().__init__(said if isinstance(said, str) else "\n".join(problem.text() for problem in said))


class UnknownName(ScenarioError):
    """A scenario names something that does not exist; the message suggests what does."""


class HarnessError(ChaosError):
    """The harness could not do its work here; the message says what is missing and the remedy."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the suggestion that ends an error about *word*: a near miss, else all that is known."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names) or 'none'}"
