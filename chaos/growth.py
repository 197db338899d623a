"""How what a strategy stores grows with the steps: rows measured at the crashes of one run, and a fitted exponent.

A run that is killed when N steps are done shows, at that moment, what a run of N steps leaves: so one run gives a row
for each N. Everything here is a pure function of a record.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from chaos.events.seen import Exited, HostDid, Started
from chaos.plan import STEP_PHASES

if TYPE_CHECKING:
    from chaos.record import Record

_DONE_PHASES = ("after_act", "during_commit", "after_commit")  # a crash there comes when the step itself is done
_MILLISECONDS = 1000
_DIGITS = 3  # microseconds: more than the clock of a journal does not have


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured when *n* steps were done.

    *stored_bytes* is the state at rest; *log_bytes* stood in write-ahead logs beside it. *written_bytes* is all that
    was written until then, by the agent, by servers and by the strategy's half outside. *step_ms* is the mean over all
    steps until then; *resume_ms* the time from the first look into the store to the first step that came of it.
    """

    n: int
    stored_bytes: int
    log_bytes: int = 0
    written_bytes: int
    step_ms: float | None
    resume_ms: float | None


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """A power law: bytes grow with n to the *exponent*.

    *r2* is the share of the variance that it explains. *last* is the exponent of the last doubling alone: growth that
    hides behind a constant shows there first.
    """

    exponent: float
    r2: float
    last: float


def rows(run: Record) -> tuple[Row, ...]:
    """Return a row for each incarnation of *run* that a fault ended after a step, in order."""
    found = []
    written, injured = 0, {injection.attempt for injection in run.injections}
    for exit_ in run.exits:
        written += exit_.written_bytes
        done = _done(run, exit_)
        if exit_.status != 0 and exit_.attempt in injured and done:
            row = Row(
                n=done,
                stored_bytes=exit_.stored_bytes - exit_.log_bytes,
                log_bytes=exit_.log_bytes,
                written_bytes=written + exit_.elsewhere_bytes,
                step_ms=_step_ms(run, exit_.attempt),
                resume_ms=_resume_ms(run, exit_),
            )
            found.append(row)
    return tuple(found)


def fit(points: Sequence[tuple[float, float]]) -> Fit | None:
    """Return the power law through *points* of (n, bytes), by least squares on logarithms.

    None if fewer than two different n have bytes at all: nothing grows there.
    """
    logs = sorted((math.log(n), math.log(size)) for n, size in points if n > 0 and size > 0)
    if len({x for x, _ in logs}) < 2:
        return None
    mean_x, mean_y = (sum(values) / len(logs) for values in zip(*logs, strict=True))
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in logs)
    exponent = covariance / sum((x - mean_x) ** 2 for x, _ in logs)
    total = sum((y - mean_y) ** 2 for _, y in logs)
    rest = sum((y - mean_y - exponent * (x - mean_x)) ** 2 for x, y in logs)
    return Fit(exponent=exponent, r2=1 - rest / total if total else 1.0, last=_last(logs))


def _last(logs: Sequence[tuple[float, float]]) -> float:
    """Return the slope over the last doubling of n; where n did not double, between the last two."""
    end_x, end_y = logs[-1]
    halves = [point for point in logs if end_x - point[0] >= math.log(2) - 1e-9]
    start_x, start_y = halves[-1] if halves else next(p for p in reversed(logs) if p[0] < end_x)
    return (end_y - start_y) / (end_x - start_x)


def _done(run: Record, exit_: Exited) -> int:
    """Return how many steps were done when the incarnation of *exit_* ended, by its last point."""
    points = [p for p in run.points if p.attempt == exit_.attempt and p.at <= exit_.at and p.phase in STEP_PHASES]
    return points[-1].step + (points[-1].phase in _DONE_PHASES) if points else 0


def _step_ms(run: Record, attempt: int) -> float | None:
    """Return the mean time from one step's beginning to the next one's, in all incarnations until *attempt*."""
    thoughts = [point for point in run.points if point.phase == "before_think" and point.attempt <= attempt]
    times = [b.at - a.at for a, b in pairwise(thoughts) if a.attempt == b.attempt and b.step == a.step + 1]
    return _ms(sum(times) / len(times)) if times else None


def _resume_ms(run: Record, exit_: Exited) -> float | None:
    """Return what it took to come back after *exit_*, the start of the interpreter and its imports left out.

    That is from `before_load` to the first step, or to the end if there is none left; and before that, what the
    strategy's half outside did between the two incarnations.
    """
    points = [point for point in run.points if point.attempt == exit_.attempt + 1]
    load = next((point.at for point in points if point.phase == "before_load"), None)
    back = next((point.at for point in points if point.phase in ("before_think", "finished")), None)
    if load is None or back is None:
        return None
    return _ms(back - load + _outside(run, exit_))


def _outside(run: Record, exit_: Exited) -> float:
    """Return the seconds from *exit_* to the last word of the strategy's other half before the agent's next start."""
    events = run.events[run.events.index(exit_) + 1 :]
    start = next((number for number, event in enumerate(events) if isinstance(event, Started)), 0)
    words = [event.at for event in events[:start] if isinstance(event, HostDid)]
    return max(words, default=exit_.at) - exit_.at


def _ms(seconds: float) -> float:
    return round(seconds * _MILLISECONDS, _DIGITS)
