"""What a strategy says that it restores, against what a run showed."""

from __future__ import annotations

from collections.abc import Mapping

from chaos import measure
from chaos.checks import Terms
from chaos.checks.state import shows_the_same
from chaos.record import Record
from chaos.verdict import Outcome, Verdict

KEPT, REFUTED, NOT_JUDGED = "kept", "refuted", "not judged"


def judge_claims(
    claims: frozenset[str], run: Record, reference: Record, verdicts: Mapping[str, Verdict], terms: Terms
) -> dict[str, str]:
    """Return for each of *claims* whether *run* kept it, refuted it, or says nothing about it.

    "messages" is judged by what the model endpoint saw: the first prompt of every later incarnation is the
    reference's prompt of the same turn, and no more turns are missing than *terms* allow. And by the store: another
    process reads the very conversation that the agent ended with, crash or no crash. The other claims have a check
    of the same name.
    """
    judged = {}
    for claim in sorted(claims):
        if claim == "messages":
            judged[claim] = _messages(run, reference, terms)
        else:
            verdict = verdicts.get(claim)
            outcome = verdict.outcome if verdict else Outcome.UNKNOWN
            judged[claim] = {Outcome.PASS: KEPT, Outcome.FAIL: REFUTED}.get(outcome, NOT_JUDGED)
    return judged


def _messages(run: Record, reference: Record, terms: Terms) -> str:
    ended = reference if run.ends_alike(reference) and run.reloads_alike(reference) else run
    if ended.stores_another_conversation:
        return REFUTED
    first = run.index.firsts("status 200", lambda request: request.status == 200)
    firsts = [request for attempt, request in first.items() if attempt > 1]
    if not firsts:
        return NOT_JUDGED
    lost = max(measure.lost_by_crash(run), default=0)
    if terms.max_lost_steps is not None and lost > terms.max_lost_steps:
        return REFUTED
    there = reference.first_by_turn
    kept = all(shows_the_same(event, there.get(event.turn), run, reference) for event in firsts)
    return KEPT if kept else REFUTED
