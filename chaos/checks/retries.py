"""Does a client that is refused make it worse?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from chaos.checks import Terms
from chaos.checks._diff import Difference, counted, verdict
from chaos.events.seen import Asked, Exited
from chaos.index import prompt_of
from chaos.verdict import Verdict

if TYPE_CHECKING:
    from chaos.record import Record
    from chaos.targets import Facts

TOLERANCE_SECONDS = 0.005
"""Node's timers may fire a millisecond early and clients round milliseconds down; both ends have one clock here."""

STORM_REQUESTS, STORM_SECONDS = 4, 0.1
"""More requests in less time are no back-off: a constant delay of 25 ms has as many, the SDKs' first one is 500 ms."""

TRIES_IN_VAIN = 3
"""What the SDKs make by themselves of a refusal that no waiting changes: a request and two retries."""

_FOR_GOOD = ("quota", "context_length")


@dataclass(frozen=True)
class Retries:
    """A refused client waits as long as it is told, backs off where it is told nothing, and stops where it is futile.

    Told of every run, finished or not: a request that came too early has been made.
    """

    def check(self, run: Record, reference: Record, terms: Terms, facts: Facts) -> Verdict:
        return verdict([*_too_early(run), *_storms(run), *_in_vain(run)])


def _too_early(run: Record) -> Iterator[Difference]:
    """Yield each refusal that named a time and was asked again before it was over.

    Only a request that can have known counts: for the same prompt, or of an incarnation that came after the refused
    one had ended. Another conversation's may have been on its way.
    """
    for place in run.index.places(Asked, "told when", lambda request: request.retry_after):
        refusal, ended = run.index.at(place), False
        for event in run.index.window(place + 1, len(run.index)):
            ended |= isinstance(event, Exited) and event.attempt == refusal.attempt
            if not isinstance(event, Asked) or not isinstance(refusal, Asked) or event.style != refusal.style:
                continue
            if event.prompt == refusal.prompt or (ended and event.attempt != refusal.attempt):
                waited, told = event.at - refusal.at, refusal.retry_after or 0.0
                if waited < told - TOLERANCE_SECONDS:
                    who = f"attempt {event.attempt}" + (", after a restart" if event.attempt != refusal.attempt else "")
                    yield Difference(
                        f"asked again {waited:.3f} s after a {refusal.status} that said {told:g} s"
                        f" (turn {event.turn}, {who})"
                    )
                break


def _storms(run: Record) -> Iterator[Difference]:
    """Yield the first prompt that was asked again and again without a pause while nobody said when to come back."""
    untold = run.where(Asked, "failed", lambda request: _failed(request) and request.retry_after is None)
    if len(untold) < STORM_REQUESTS:
        return  # each request of a storm but the last one is such a one
    prompts = {request.prompt for request in untold}
    asked = sorted(
        (one for prompt in prompts for one in run.index.having(Asked, "prompt", prompt_of, prompt)), key=itemgetter(0)
    )
    chains: dict[str, list[Asked]] = {}
    for _, request in asked:
        chain = chains.setdefault(request.prompt, [])
        chain.append(request)
        if len(chain) > STORM_REQUESTS:
            seconds = request.at - chain[-1 - STORM_REQUESTS].at
            if seconds < STORM_SECONDS:
                yield Difference(
                    f"retry storm: {STORM_REQUESTS + 1} requests for turn {request.turn} in {seconds:.3f} s"
                    f" (attempt {request.attempt}), each after no usable answer"
                )
                return
        if request.retry_after is not None or not _failed(request):
            chain.clear()


def _in_vain(run: Record) -> Iterator[Difference]:
    """Yield the incarnations that went on asking after a refusal that no waiting changes."""
    refused = run.where(Asked, "refused for good", lambda request: request.refused in _FOR_GOOD)
    # a prompt that is too long may be shortened and asked again; a quota is used up for every prompt
    tries = Counter((r.attempt, r.refused, r.prompt if r.refused == "context_length" else "") for r in refused)
    for (attempt, why, _), count in tries.items():
        if count > TRIES_IN_VAIN:
            what = "the quota is used up" if why == "quota" else "the prompt is too long"
            yield Difference(f"{counted(count, 'request')} of attempt {attempt} were refused because {what}")


def _failed(request: Asked) -> bool:
    """Tell whether the request got no usable answer and may be made again."""
    return bool(request.spoiled) or request.status in (408, 429) or request.status >= 500
