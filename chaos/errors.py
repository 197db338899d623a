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


class ChaosError(Exception):
    """Base class; catch this to catch everything that the harness raises on purpose."""


class ScenarioError(ChaosError):
    """A scenario does not say what it needs to say. The message has one line for each problem."""


class UnknownName(ScenarioError):
    """A scenario names something that does not exist; the message suggests what does."""


class HarnessError(ChaosError):
    """The harness could not do its work here; the message says what is missing and the remedy."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the suggestion that ends an error about *word*: a near miss, else all that is known."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names) or 'none'}"
