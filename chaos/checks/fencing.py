"""Does a worker that was taken for dead do any harm?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.checks import Terms
from chaos.checks._diff import Difference, counted, verdict
from chaos.events.seen import Reached, Started
from chaos.verdict import Verdict

if TYPE_CHECKING:
    from chaos.journal import AnyEvent
    from chaos.record import Record
    from chaos.targets import Facts


@dataclass(frozen=True)
class Fencing:
    """Of two workers on one thread only one has effects, and only one commits, in each step.

    What the first one did before the second had taken over (announced `after_load`) is no matter of this check: that
    is what any crash may leave behind. Nor is a call that the service recognised by its idempotency key.
    """

    def check(self, run: Record, reference: Record, terms: Terms, facts: Facts) -> Verdict:
        found: list[Difference] = []
        for former in sorted(run.presumed_dead):
            if terms.effects != "at-least-once":
                found += _effects(run, former)
            found += _commits(run, former)
        return verdict(found)


def _since(run: Record, former: int) -> int:
    """Return the position in the journal from which another worker than *former* has taken over."""
    later = [(place, event) for place, event in enumerate(run.events) if event.attempt > former]
    loaded = (place for place, event in later if isinstance(event, Reached) and event.phase == "after_load")
    started = (place for place, event in later if isinstance(event, Started))
    return next(loaded, next(started, len(run.events)))


def _effects(run: Record, former: int) -> Iterator[Difference]:
    """Yield the effects that *former* had after another had taken over, and that one had as well."""
    since, names = _since(run, former), dict(zip(run.effects, run.effect_steps, strict=True))
    done = [event for event in run.effects if not event.deduplicated]
    late = {id(event) for event in run.events[since:]}
    for effect in done:
        if effect.attempt != former or id(effect) not in late:
            continue
        other = next((e for e in done if e.attempt > former and e.identity == effect.identity), None)
        if other is not None:
            what = f"{effect.service}.{effect.operation}"
            yield Difference(
                f"{what} was done by two workers that lived at the same time",
                tuple(f"attempt {e.attempt}, step {names[e]}: {e.payload}" for e in (effect, other)),
            )


def _commits(run: Record, former: int) -> Iterator[Difference]:
    """Yield the steps that *former* committed after another had taken over, and that one committed as well."""
    since = _since(run, former)
    mine = {point.step for point in _committed(run.events[since:]) if point.attempt == former}
    both = sorted(mine & {point.step for point in _committed(run.events) if point.attempt > former})
    if both:
        steps = counted(len(both), "step")
        yield Difference(
            f"{steps} committed by two workers that lived at the same time, from step {both[0]} on",
            (f"attempt {former} went on after another had taken over", f"steps: {', '.join(map(str, both))}"),
        )


def _committed(events: Sequence[AnyEvent]) -> Iterator[Reached]:
    return (event for event in events if isinstance(event, Reached) and event.phase == "after_commit")
