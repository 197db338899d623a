"""Does recovery cost no more than allowed?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos import measure
from chaos.checks import Terms
from chaos.checks._diff import DID_NOT_FINISH, Difference, counted, verdict
from chaos.events.seen import Asked, Reached
from chaos.verdict import Verdict, unknown

if TYPE_CHECKING:
    from chaos.record import Record
    from chaos.targets import Facts


@dataclass(frozen=True)
class Recovery:
    """Steps lost by a crash, tokens paid again and seconds until work goes on stay within the scenario's terms."""

    def check(self, run: Record, reference: Record, terms: Terms, facts: Facts) -> Verdict:
        if not run.finished:
            return DID_NOT_FINISH
        if run.crashes and not run.all(Reached) and not run.all(Asked):
            return unknown("the agent announced no point and asked nothing: its recovery cannot be measured")
        return verdict(list(_excesses(run, terms)))


def _excesses(run: Record, terms: Terms) -> Iterator[Difference]:
    lost, again, time = max(measure.lost_by_crash(run), default=0), measure.tokens(run).asked_again, measure.rto(run)
    if terms.max_lost_steps is not None and lost > terms.max_lost_steps:
        turns = (
            f"attempt {attempt} went on at turn {turn}" for attempt, turn in run.resumed_turn.items() if attempt > 1
        )
        yield Difference(f"{counted(lost, 'step')} lost by a crash; allowed: {terms.max_lost_steps}", tuple(turns))
    if terms.max_tokens_asked_again is not None and again > terms.max_tokens_asked_again:
        yield Difference(f"{again} tokens were paid for again; allowed: {terms.max_tokens_asked_again}")
    if terms.max_recovery_seconds is not None and time and time.total > terms.max_recovery_seconds:
        parts = f"detect {time.detect:g}, restart {time.restart:g}, load {time.load:g}, replay {time.replay:g}"
        allowed = f"allowed: {terms.max_recovery_seconds:g}"
        yield Difference(f"recovery took {time.total:.3g} s; {allowed}", (f"seconds: {parts}",))
