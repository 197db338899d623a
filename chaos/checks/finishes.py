"""Does the agent come to its end?"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.checks import Terms
from chaos.checks._diff import counted, limited, short
from chaos.events.seen import Reached
from chaos.verdict import PASS, Verdict, fail, unknown

if TYPE_CHECKING:
    from chaos.events.seen import Exited
    from chaos.record import Record
    from chaos.targets import Facts

_LOG_LINES = 20  # the end of a traceback; the journal has the rest


@dataclass(frozen=True)
class Finishes:
    """After the last fault the agent finishes its work before the deadline, within the restarts that it has.

    Exit status 0 is not enough where the crash-free run also announced that it had come to its end.
    """

    def check(self, run: Record, reference: Record, terms: Terms, facts: Facts) -> Verdict:
        if run.finished and reference.came_to_end and not run.came_to_end:
            return fail(f"exited with status 0 and was not done; {_last_seen(run)}")
        if run.finished:
            return PASS
        if not run.ended:
            return unknown("the journal has no end: the harness was stopped")
        last = run.exits[-1] if run.exits else None
        log = limited(last.log.splitlines()[-_LOG_LINES:]) if last else ()
        if last and refused(run):
            return fail(f"refused to resume: {_last_line(last)} ({_status(last)}, attempt {last.attempt})", log)
        if run.ended == "gave up":
            why = f": {_status(last)}, {_last_line(last)}" if last else ""
            return fail(f"gave up after {counted(max(0, run.attempts - 1), 'restart')}{why}", log)
        return fail(f"did not finish ({run.ended}); {_last_seen(run)}", log)


def loud(run: Record) -> bool:
    """Tell whether the run ended with an error that the agent itself raised: an exit code, not a signal."""
    return not run.finished and bool(run.exits) and run.exits[-1].status > 0


def refused(run: Record) -> bool:
    """Tell whether the last incarnation ended loudly while it recovered, before it asked anything new."""
    last = run.attempts
    asked_new = any(request.attempt == last and not request.again for request in run.answered)
    return last > 1 and loud(run) and run.exits[-1].attempt == last and not asked_new


def _last_line(event: Exited) -> str:
    lines = event.log.strip().splitlines()
    return short(lines[-1].strip()) if lines else "without a word"


def _status(event: Exited) -> str:
    if event.status >= 0:
        return f"exit code {event.status}"
    try:
        return signal.Signals(-event.status).name
    except ValueError:
        return f"signal {-event.status}"


def _last_seen(run: Record) -> str:
    points = run.all(Reached)
    if not points:
        return f"attempt {run.attempts} announced no point"
    point = points[-1]
    return f"last seen at {point.step}/{point.phase} in attempt {point.attempt} of {run.attempts}"
