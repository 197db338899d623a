"""Is damage to the store noticed?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.checks import Terms, effects, state
from chaos.checks._diff import Difference, limited
from chaos.checks.finishes import loud
from chaos.verdict import PASS, Verdict, fail, unknown

if TYPE_CHECKING:
    from chaos.journal import StoreDamaged
    from chaos.record import Record
    from chaos.targets import Facts


@dataclass(frozen=True)
class Corruption:
    """Damaged stored bytes are detected loudly before they are used, or healed: never believed in silence."""

    def check(self, run: Record, reference: Record, terms: Terms, facts: Facts) -> Verdict:
        if not run.damages:
            return PASS
        believed = state.prompt_differences(run.asked_after(run.damages[0]), run, reference)
        if believed:
            return _silent(run, believed)
        if loud(run):
            return PASS
        if not run.finished:
            return unknown("the agent neither finished nor ended with an error of its own")
        if reference.final_state is None and not reference.answered:
            return unknown("the reference announced no state and asked the model nothing")
        wrong = [*state.final_differences(run, reference), *effects.differences(run, reference, terms)]
        return _silent(run, wrong) if wrong else PASS


def _silent(run: Record, wrong: list[Difference]) -> Verdict:
    details = (line for one in wrong for line in (one.finding, *(f"  {detail}" for detail in one.details)))
    damages = [f"{_damage(one)}: {one.bytes_before} bytes became {one.bytes_after}" for one in run.damages]
    return fail(f"silent damage: {_damage(run.damages[0])}; {wrong[0].finding}", (*damages, *limited(details)))


def _damage(event: StoreDamaged) -> str:
    return f"{event.how} in {event.store} at {event.where}"
