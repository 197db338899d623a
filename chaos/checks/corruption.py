"""Is damage to the store noticed, and does nobody but a fault do any?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.checks import Terms, effects, state
from chaos.checks._diff import Difference, limited
from chaos.checks.finishes import loud
from chaos.verdict import PASS, Verdict, fail, unknown

if TYPE_CHECKING:
    from chaos.events.done import StoreDamaged
    from chaos.record import Record
    from chaos.targets import Facts


@dataclass(frozen=True)
class Corruption:
    """Damaged stored bytes are detected loudly before they are used, or healed: never believed in silence.

    Where LangGraph stored them, an audit of what is stored tells whether the damage could have been seen; and where no
    fault did any, no strategy may leave a thread behind that the audit finds damaged (but the crash-free run, which has
    nothing to be compared with: its state says whether it is right).
    """

    def check(self, run: Record, reference: Record, terms: Terms, facts: Facts) -> Verdict:
        if not run.damages:
            return _left_behind(run)
        believed = state.prompt_differences(run, reference, after=run.damages[0])
        if believed:
            return _silent(run, believed)
        if loud(run):
            return PASS
        if not run.finished:
            return unknown("the agent neither finished nor ended with an error of its own")
        if reference.final_snapshot is None and not reference.answered:
            return unknown("the reference announced no state and asked the model nothing")
        wrong = [*state.final_differences(run, reference), *effects.differences(run, reference, terms)]
        return _silent(run, wrong) if wrong else PASS


def _silent(run: Record, wrong: list[Difference]) -> Verdict:
    details = (line for one in wrong for line in (one.finding, *(f"  {detail}" for detail in one.details)))
    damages = [f"{_damage(one)}: {one.bytes_before} bytes became {one.bytes_after}" for one in run.damages]
    visible, *more = _visibility(run)
    finding = f"silent damage: {_damage(run.damages[0])}; {wrong[0].finding}{visible}"
    return fail(finding, (*damages, *more, *limited(details)))


def _visibility(run: Record) -> list[str]:
    """Return whether what was stored showed the damage, for the end of a finding, and all that it showed."""
    audit = next((one for one in run.audits if one.when == "crashed"), None)
    if audit is None:
        return [""]
    if not audit.findings:
        return ["; nothing in what is stored shows it"]
    return [f"; the stored thread shows it ({audit.findings[0]}), and the agent went on", *audit.findings]


def _left_behind(run: Record) -> Verdict:
    audit = next((one for one in reversed(run.audits) if one.when == "end"), None)
    if not run.injections or audit is None or not audit.findings:
        return PASS
    return fail(f"the agent left a damaged thread by itself: {audit.findings[0]}", limited(iter(audit.findings)))


def _damage(event: StoreDamaged) -> str:
    return f"{event.how} in {event.store} at {event.where}"
