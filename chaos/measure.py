"""The numbers of one run: steps lost, seconds to recover, tokens, bytes. Pure functions of its record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.events.seen import Asked, Reached
from chaos.index import Life, is_answered, is_refused
from chaos.plan import STEP_PHASES
from chaos.results import RecoveryTime, Storage, Tokens

if TYPE_CHECKING:
    from chaos.events.seen import Exited
    from chaos.record import Record

_DIGITS = 6  # the journal's clock has microseconds; differences of floats have noise behind them


def steps(run: Record) -> int:
    """Return how many steps the agent had acted at its furthest."""
    return max((_acted(run, attempt) for attempt in run.index.lives if attempt > 0), default=0)


def rpo_steps(run: Record) -> int:
    """Return the steps that were acted before a crash and had to be done again, summed over all crashes."""
    return sum(lost_by_crash(run))


def lost_by_crash(run: Record) -> tuple[int, ...]:
    """Return for each crash the steps that were acted before it and had to be done again."""
    return tuple(_lost(run, crash.attempt) for crash in run.crashes)


def rto(run: Record) -> RecoveryTime | None:
    """Return the parts of the longest recovery of the run; None if nothing crashed. A part not seen counts 0."""
    return max((_recovery(run, crash) for crash in run.crashes), key=lambda time: time.total, default=None)


def tokens(run: Record) -> Tokens:
    """Return the tokens of answers given first, of answers given again, and of refused requests."""
    return Tokens(
        useful=run.total(Asked, "useful tokens", lambda r: _cost(r) if not r.again else 0),
        asked_again=run.total(Asked, "tokens asked again", lambda r: _cost(r) if r.again else 0),
        retried=run.total(Asked, "tokens refused", lambda r: r.tokens_in if is_refused(r) else 0),
    )


def storage(run: Record) -> Storage:
    """Return the bytes kept at the end and the bytes that all incarnations wrote, or had written for them."""
    elsewhere = max((event.elsewhere_bytes for event in run.exits), default=0)
    return Storage(stored=run.stored_bytes, written=sum(event.written_bytes for event in run.exits) + elsewhere)


def _acted(run: Record, attempt: int) -> int:
    """Return the steps that were done when *attempt* ended, its predecessors' included, as far as it showed them.

    It shows them by the point after the act, and by a conversation that holds the answers already. An incarnation
    that shows neither took nothing up, so its death cost nothing: the crash before it accounts for the loss.
    """
    life = run.index.lives.get(attempt, Life())
    return max(life.acted, life.turns)


def _lost(run: Record, attempt: int) -> int:
    """Return the steps that the crash of *attempt* threw away, by the first later one that shows where it goes on."""
    acted = _acted(run, attempt)
    for later in range(attempt + 1, run.attempts + 1):
        if later in run.resumed_turn:
            return max(0, acted - run.resumed_turn[later])
        if later in run.completed:
            return 0
    return acted


def _recovery(run: Record, crash: Exited) -> RecoveryTime:
    injected = [event.at for event in run.injections if event.attempt == crash.attempt and event.at <= crash.at]
    points = run.index.points(crash.attempt + 1)
    if not run.index.points(1):
        return _by_requests(run, crash, injected[-1] if injected else None)
    load, loaded = (_loading(run, crash.attempt + 1, phase) for phase in ("before_load", "after_load"))
    interrupted = _interrupted_step(run, crash)
    ahead = (p for p in points if p.phase == "finished" or (p.phase in STEP_PHASES and p.step >= interrupted))
    back = next((point.at for point in ahead), None)
    return RecoveryTime(
        detect=_between(injected[-1] if injected else None, crash.at),
        restart=_between(crash.at, points[0].at if points else None),
        load=_between(load, loaded),
        replay=_between(loaded, back),
    )


def _by_requests(run: Record, crash: Exited, injected: float | None) -> RecoveryTime:
    """Return the recovery of an agent that announces nothing: it is back when it asks for what it had no answer to."""
    asked = [request for request in run.all(Asked) if request.attempt == crash.attempt + 1]
    first = next((request.at for request in asked), None)
    back = next((request.at for request in asked if not request.again), None)
    return RecoveryTime(
        detect=_between(injected, crash.at), restart=_between(crash.at, first), replay=_between(first, back)
    )


def _interrupted_step(run: Record, crash: Exited) -> int:
    """Return the furthest step that the incarnation was in: of the one before if this one came to none."""
    lives = [life for attempt, life in run.index.lives.items() if attempt <= crash.attempt and life.last >= 0]
    return max(lives, key=lambda life: life.last).furthest if lives else 0


def _cost(request: Asked) -> int:
    return request.tokens_in + request.tokens_out if is_answered(request) else 0


def _loading(run: Record, attempt: int, phase: str) -> float | None:
    """Return when *attempt* came to *phase* first."""
    points = run.where(Reached, phase, lambda point: point.phase == phase)
    return next((point.at for point in points if point.attempt == attempt), None)


def _between(start: float | None, end: float | None) -> float:
    return 0.0 if start is None or end is None else round(max(0.0, end - start), _DIGITS)
