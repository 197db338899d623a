"""What a check says about a run, and what a run and a cell amount to. The worst one wins."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, StrEnum

import msgspec


class Outcome(IntEnum):
    """The answer of one check, ordered: merging keeps the largest. UNKNOWN is never a pass."""

    PASS = 0
    UNKNOWN = 1
    FAIL = 2


class Verdict(msgspec.Struct, frozen=True):
    """What one check concluded: *finding* in one sentence, *details* as lines to read (a diff, a table)."""

    outcome: Outcome
    finding: str = ""
    details: tuple[str, ...] = ()


PASS = Verdict(Outcome.PASS)


def fail(finding: str, details: Iterable[str] = ()) -> Verdict:
    """Return a broken promise: *finding* says what broke and where."""
    return Verdict(Outcome.FAIL, finding, tuple(details))


def unknown(finding: str) -> Verdict:
    """Return a check that could not judge: *finding* says what it missed."""
    return Verdict(Outcome.UNKNOWN, finding)


class CellVerdict(StrEnum):
    """What a run, or a cell of several runs, amounts to, from best to worst."""

    RECOVERED = "recovered"
    RECOVERED_WITH_LOSS = "recovered with loss"  # right in the end, but more work was redone than allowed
    REFUSED = "refused"  # a loud error on resume: bad, but honest
    STUCK = "stuck"  # neither finished nor failed before the deadline, or restarted without end
    DIVERGED = "diverged"  # finished, and is silently wrong
    NOT_EXERCISED = "not exercised"  # a planned fault did not land: proves nothing
    UNKNOWN = "unknown"  # an assumption of the harness did not hold, or a check could not judge
    HARNESS_ERROR = "harness error"  # ours, not the agent's


_ORDER = list(CellVerdict)


def worst(verdicts: Iterable[CellVerdict]) -> CellVerdict:
    """Return the worst of *verdicts*; no verdict at all is NOT_EXERCISED, never a pass."""
    return max(verdicts, key=_ORDER.index, default=CellVerdict.NOT_EXERCISED)
