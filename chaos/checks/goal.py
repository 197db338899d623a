"""Does the agent still do what it was asked to do?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.checks import Terms
from chaos.checks._diff import Difference, short, unfinished, verdict
from chaos.events.seen import Asked, Effected
from chaos.verdict import Verdict, unknown

if TYPE_CHECKING:
    from chaos.record import Record
    from chaos.targets import Facts


@dataclass(frozen=True)
class Goal:
    """Every prompt carries the goal word for word, nothing is done beside it, and what it asks for stands there."""

    def check(self, run: Record, reference: Record, terms: Terms, facts: Facts) -> Verdict:
        found = [*_drift(run, facts), *_off_goal(run), *_deliverable(run, facts)]
        if found:
            return verdict(found)
        if cannot := unfinished(run):
            return cannot
        if _wanted(facts) and run.final_observation is None:
            return unknown("the run was not observed at its end")
        if not run.all(Asked) and not _wanted(facts):
            return unknown("no prompt carried a goal and no file was to be delivered")
        return verdict([])


def _drift(run: Record, facts: Facts) -> Iterator[Difference]:
    wrong = run.where(Asked, ("goal", facts.goal), lambda request: request.goal != facts.goal)
    if wrong:
        first = wrong[0]
        has = f"carries another goal: {short(first.goal)!r}" if first.goal else "carries no goal"
        yield Difference(
            f"the prompt of turn {first.turn} (attempt {first.attempt}) {has}",
            (f"the goal is: {facts.goal}", f"{len(wrong)} of {len(run.all(Asked))} prompts differ"),
        )


def _off_goal(run: Record) -> Iterator[Difference]:
    for place in run.index.places(Effected, "off goal", lambda effect: effect.off_goal):
        effect, step = run.index.at(place), run.index.step_at(place)
        if isinstance(effect, Effected):
            where = f"attempt {effect.attempt}" + ("" if step is None else f", step {step}")
            yield Difference(f"{effect.service}.{effect.operation} is off the goal ({where})", (effect.payload,))


def _wanted(facts: Facts) -> dict[str, str]:
    """Return path to digest of what must stand there in the end; "" for any content."""
    return {**({facts.deliverable: ""} if facts.deliverable else {}), **dict(facts.digests)}


def _deliverable(run: Record, facts: Facts) -> Iterator[Difference]:
    if run.final_observation is None:
        return
    files = {entry.path: entry for entry in run.final_observation.files}
    for path, digest in _wanted(facts).items():
        if path not in files:
            yield Difference(f"{path} was to be delivered and is missing")
        elif digest and files[path].digest != digest:
            yield Difference(f"{path} has wrong content", (f"digest {files[path].digest} instead of {digest}",))
