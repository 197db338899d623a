"""Is a reply that did not come whole ever taken for an answer?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.checks import Terms
from chaos.checks._diff import Difference, canonical, limited, short, verdict
from chaos.events.seen import Asked, Effected
from chaos.index import prompt_of
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
    lost = run.where(Asked, "spoiled", _is_spoiled)
    if not lost:
        return
    sizes = {request.prompt: len(run.prefixes(request)) for request in lost}
    spoiled: dict[str, Asked] = {}
    whole: set[str] = set()
    for request in run.all(Asked):
        shown = run.prefixes(request) if spoiled else ()
        for prompt in sorted(spoiled, key=lambda one: sizes[one]):
            size = sizes[prompt]
            if size >= len(shown) or shown[size - 1] != prompt:
                continue
            taken = shown[size]
            if prompt not in whole or taken != _next(reference, size - 1, prompt, taken):
                yield _taken(run, request, spoiled[prompt], taken)
                return
        if request.spoiled:
            spoiled.setdefault(request.prompt, request)
        elif request.status == 200:
            whole.add(request.prompt)


def _next(reference: Record, place: int, prompt: str, default: str) -> str:
    """Return the digest of what the reference's conversation has behind *prompt*; *default* if it never had that."""
    every = (reference.prefixes(request) for request in reference.asked)
    longer = (prefixes for prefixes in every if len(prefixes) > place + 1)
    return next((prefixes[place + 1] for prefixes in longer if prefixes[place] == prompt), default)


def _taken(run: Record, request: Asked, spoiled: Asked, taken: str) -> Difference:
    message = run.message(taken)
    return Difference(
        f"a reply that was {spoiled.spoiled} was taken for an answer: the conversation of attempt {request.attempt}"
        f" goes on from turn {spoiled.turn}",
        limited([f"it has: {short(canonical(message))}"]) if message is not None else (),
    )


def _acted(run: Record, reference: Record) -> Iterator[Difference]:
    """Yield the effects that the reference never had and that came while half a reply was the last thing heard."""
    known = reference.index.groups(Effected, "identity", lambda effect: effect.identity)
    unknown = run.index.places(Effected, "unknown", lambda effect: effect.identity not in known, reference.index)
    for place in unknown:
        effect = run.index.at(place)
        last = _heard(run, place)
        if isinstance(effect, Effected) and last is not None and last.spoiled:
            what = f"{effect.service}.{effect.operation}"
            yield Difference(f"{what} was done on a reply that was {last.spoiled} (turn {last.turn})")


def _heard(run: Record, place: int) -> Asked | None:
    """Return the last request, before that place in the journal, of the same incarnation."""
    attempt = run.index.at(place).attempt
    before = (run.index.at(number) for number in range(place - 1, -1, -1))
    return next((event for event in before if isinstance(event, Asked) and event.attempt == attempt), None)


def _ended_on(run: Record) -> Iterator[Difference]:
    """Yield the last request of a finished run if its reply never came whole."""
    asked = run.all(Asked)
    if not run.finished or not asked:
        return
    last = asked[-1]
    tries = run.index.having(Asked, "prompt", prompt_of, last.prompt) if last.spoiled else []
    if last.spoiled and all(request.spoiled or request.status != 200 for _, request in tries):
        yield Difference(
            f"a reply that was {last.spoiled} was taken for the last word: nothing was asked after turn {last.turn}"
        )


def _is_spoiled(request: Asked) -> bool:
    return bool(request.spoiled)
