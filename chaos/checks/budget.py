"""Do the agent's own counters survive?"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from chaos.checks import Terms
from chaos.checks._diff import Difference, counted, unfinished, verdict
from chaos.events.seen import Asked
from chaos.index import is_answered
from chaos.verdict import Verdict, unknown

if TYPE_CHECKING:
    from chaos.index import Index
    from chaos.record import Record
    from chaos.targets import Facts


@dataclass(frozen=True)
class Budget:
    """A crash gives the agent no budget back: its counts of steps and tokens used never fall, and its caps hold.

    Broken caps are told even of a run that did not finish.
    """

    def check(self, run: Record, reference: Record, terms: Terms, facts: Facts) -> Verdict:
        found = [*_counters(run, reference), *_tokens(run, reference), *_cap(run, facts)]
        if found:
            return verdict(found)
        if cannot := unfinished(run):
            return cannot
        if facts.max_requests is None and not reference.total(Asked, "accounted", _is_accounted):
            return unknown("the reference reports no budget and the target sets no cap")
        return verdict([])


def _counters(run: Record, reference: Record) -> Iterator[Difference]:
    """Yield the first request whose counter is behind the reference's: the later ones only repeat it."""

    def is_behind(request: Asked) -> bool:
        expected = reference.first_by_turn.get(request.turn)
        if expected is None or expected.budget is None:
            return False
        return request.budget is None or request.budget < expected.budget

    for request in run.where(Asked, "budget behind", is_behind, against=reference)[:1]:
        expected = reference.first_by_turn[request.turn].budget
        where = f"at turn {request.turn} (attempt {request.attempt})"
        if request.budget is None:
            yield Difference(f"the agent reports no budget {where}; the reference had used {expected}")
        else:
            used = f"{counted(request.budget, 'step')} used {where}; the reference had used {expected}"
            yield Difference(f"the budget was reset: the agent counts {used}")


def _tokens(run: Record, reference: Record) -> Iterator[Difference]:
    """Yield the first request whose count of tokens is behind what the turns before it have cost.

    That is what the reference counts there, or less where this run's prompts were shorter: what the endpoint billed
    for the cheapest whole answer of each turn.
    """

    def is_behind(request: Asked) -> bool:
        expected = reference.first_by_turn.get(request.turn)
        if expected is None or expected.budget_tokens is None:
            return False
        return request.budget_tokens is None or request.budget_tokens < expected.budget_tokens

    suspects = run.where(Asked, "tokens behind", is_behind, against=reference)
    if not suspects:
        return
    bill = _bill(run.index, reference.index)
    for request in suspects:
        expected = reference.first_by_turn[request.turn].budget_tokens
        billed = bill(request.turn)
        least = min(expected or 0, billed)
        if request.budget_tokens is None or request.budget_tokens < least:
            has = "no tokens" if request.budget_tokens is None else counted(request.budget_tokens, "token")
            where = f"at turn {request.turn} (attempt {request.attempt})"
            yield Difference(
                f"tokens were forgotten: the agent counts {has} {where}; {least} had been used",
                (f"the reference counts {expected}, the endpoint billed {billed}",),
            )
            return


def _bill(run: Index, reference: Index) -> Callable[[int], int]:
    """Return what tells for a turn what the cheapest whole answers of all turns before it cost."""
    turns, costs = reference.once("bill", _costs)
    _, there, here = run.instead(Asked, reference)
    others = sorted({turn for request in (*there, *here) if (turn := _whole_turn(request)) is not None})
    more = list(accumulate((_cheapest(run, turn) - _cheapest(reference, turn) for turn in others), initial=0))
    return lambda turn: costs[bisect_left(turns, turn)] + more[bisect_left(others, turn)]


def _costs(run: Index) -> tuple[list[int], list[int]]:
    """Return the turns that got a whole answer, and what the cheapest ones of the first 0, 1, 2, ... cost."""
    turns = sorted(turn for turn in run.groups(Asked, "whole answers", _whole_turn) if isinstance(turn, int))
    return turns, list(accumulate((_cheapest(run, turn) for turn in turns), initial=0))


def _cheapest(run: Index, turn: int) -> int:
    answers = run.having(Asked, "whole answers", _whole_turn, turn)
    return min((answer.tokens_in + answer.tokens_out for _, answer in answers), default=0)


def _whole_turn(request: Asked) -> int | None:
    """Return the turn that *request* got a whole answer for, None if it got none."""
    return request.turn if is_answered(request) and not request.spoiled else None


def _cap(run: Record, facts: Facts) -> Iterator[Difference]:
    answered = run.total(Asked, "answered", is_answered)
    if facts.max_requests is not None and answered > facts.max_requests:
        yield Difference(
            f"{answered} model requests were answered; the cap is {facts.max_requests}",
            (f"{run.total(Asked, 'answered again', _is_answered_again)} of them had been answered before",),
        )


def _is_answered_again(request: Asked) -> bool:
    return is_answered(request) and request.again


def _is_accounted(request: Asked) -> bool:
    return is_answered(request) and not (request.budget is None and request.budget_tokens is None)
