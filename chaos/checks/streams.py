"""Is a reply that did not come whole ever taken for an answer?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.checks import Terms
from chaos.checks._diff import Difference, canonical, limited, short, verdict
from chaos.events.seen import Asked, Effected
from chaos.verdict import Verdict

if TYPE_CHECKING:
    from chaos.record import Record
    from chaos.targets import Facts


@dataclass(frozen=True)
class Streams:
    """What is cut off, lost or malformed is no answer: no conversation, no effect and no end comes from it.

    The endpoint knows which replies left it whole. A conversation that goes on from a prompt whose reply never did,
    goes on from half a reply. Told of every run, finished or not.
    """

    def check(self, run: Record, reference: Record, terms: Terms, facts: Facts) -> Verdict:
        return verdict([*_went_on(run, reference), *_acted(run, reference), *_ended_on(run)])


def _went_on(run: Record, reference: Record) -> Iterator[Difference]:
    """Yield the first request whose conversation has something else behind a prompt than the model's whole reply."""
    spoiled: dict[str, Asked] = {}
    whole: set[str] = set()
    for request in run.asked:
        for place, prompt in enumerate(request.prefixes[:-1]):
            if prompt not in spoiled:
                continue
            taken = request.prefixes[place + 1]
            if prompt not in whole or taken != _next(reference, place, prompt, taken):
                yield _taken(run, request, spoiled[prompt], taken)
                return
        if request.spoiled:
            spoiled.setdefault(request.prompt, request)
        elif request.status == 200:
            whole.add(request.prompt)


def _next(reference: Record, place: int, prompt: str, default: str) -> str:
    """Return the digest of what the reference's conversation has behind *prompt*; *default* if it never had that."""
    longer = (request.prefixes for request in reference.asked if len(request.prefixes) > place + 1)
    return next((prefixes[place + 1] for prefixes in longer if prefixes[place] == prompt), default)


def _taken(run: Record, request: Asked, spoiled: Asked, taken: str) -> Difference:
    message = run.messages.get(taken)
    return Difference(
        f"a reply that was {spoiled.spoiled} was taken for an answer: the conversation of attempt {request.attempt}"
        f" goes on from turn {spoiled.turn}",
        limited([f"it has: {short(canonical(message))}"]) if message is not None else (),
    )


def _acted(run: Record, reference: Record) -> Iterator[Difference]:
    """Yield the effects that the reference never had and that came while half a reply was the last thing heard."""
    known = {effect.identity for effect in reference.effects}
    heard: dict[int, Asked] = {}
    for event in run.events:
        if isinstance(event, Asked):
            heard[event.attempt] = event
        elif isinstance(event, Effected) and event.identity not in known and event.attempt in heard:
            last = heard[event.attempt]
            if last.spoiled:
                what = f"{event.service}.{event.operation}"
                yield Difference(f"{what} was done on a reply that was {last.spoiled} (turn {last.turn})")


def _ended_on(run: Record) -> Iterator[Difference]:
    """Yield the last request of a finished run if its reply never came whole."""
    if not run.finished or not run.asked:
        return
    last = run.asked[-1]
    if last.spoiled and all(r.spoiled or r.status != 200 for r in run.asked if r.prompt == last.prompt):
        yield Difference(
            f"a reply that was {last.spoiled} was taken for the last word: nothing was asked after turn {last.turn}"
        )
