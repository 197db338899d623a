"""Do the agent's own counters survive?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.checks import Terms
from chaos.checks._diff import Difference, counted, unfinished, verdict
from chaos.verdict import Verdict, unknown

if TYPE_CHECKING:
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
        if facts.max_requests is None and all(
            request.budget is None and request.budget_tokens is None for request in reference.answered
        ):
            return unknown("the reference reports no budget and the target sets no cap")
        return verdict([])


def _counters(run: Record, reference: Record) -> Iterator[Difference]:
    """Yield the first request whose counter is behind the reference's: the later ones only repeat it."""
    for request in run.asked:
        expected = reference.first_by_turn.get(request.turn)
        if expected is None or expected.budget is None:
            continue
        where = f"at turn {request.turn} (attempt {request.attempt})"
        if request.budget is None:
            yield Difference(f"the agent reports no budget {where}; the reference had used {expected.budget}")
            return
        if request.budget < expected.budget:
            used = f"{counted(request.budget, 'step')} used {where}; the reference had used {expected.budget}"
            yield Difference(f"the budget was reset: the agent counts {used}")
            return


def _tokens(run: Record, reference: Record) -> Iterator[Difference]:
    """Yield the first request whose count of tokens is behind what the turns before it have cost.

    That is what the reference counts there, or less where this run's prompts were shorter: what the endpoint billed
    for the cheapest whole answer of each turn.
    """
    cheapest: dict[int, int] = {}
    for answer in run.answered:
        if not answer.spoiled:
            cost = answer.tokens_in + answer.tokens_out
            cheapest[answer.turn] = min(cost, cheapest.get(answer.turn, cost))
    for request in run.asked:
        expected = reference.first_by_turn.get(request.turn)
        if expected is None or expected.budget_tokens is None:
            continue
        billed = sum(cost for turn, cost in cheapest.items() if turn < request.turn)
        least = min(expected.budget_tokens, billed)
        if request.budget_tokens is None or request.budget_tokens < least:
            has = "no tokens" if request.budget_tokens is None else counted(request.budget_tokens, "token")
            where = f"at turn {request.turn} (attempt {request.attempt})"
            yield Difference(
                f"tokens were forgotten: the agent counts {has} {where}; {least} had been used",
                (f"the reference counts {expected.budget_tokens}, the endpoint billed {billed}",),
            )
            return


def _cap(run: Record, facts: Facts) -> Iterator[Difference]:
    if facts.max_requests is not None and len(run.answered) > facts.max_requests:
        again = sum(request.again for request in run.answered)
        yield Difference(
            f"{len(run.answered)} model requests were answered; the cap is {facts.max_requests}",
            (f"{again} of them had been answered before",),
        )
