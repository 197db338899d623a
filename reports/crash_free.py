"""What the crash-free runs of a strategy show: the points there are to crash at, and the time that its commits take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chaos.events.seen import Reached
from chaos.plan import STEP_PHASES
from chaos.reports.evidence import Journals
from chaos.results import KILLED, RunResult

READ = 300  # journals, a millisecond or two each: a strategy's workloads are few


@dataclass(frozen=True)
class CrashFree:
    """The steps and phases of all crash-free runs of a strategy.

    *committing* are the milliseconds per step between an act and the end of its commit in the fastest of them, the
    harness' own share included; None where nobody saw a commit. A run that was recorded to derive others from does not
    count for it: it stood still at each point to be captured.
    """

    points: frozenset[tuple[int, str]] = frozenset()
    committing: float | None = None


def crash_free(runs: Iterable[RunResult], journals: Journals) -> dict[str, CrashFree]:
    """Return what the references of *runs* show, by strategy, as far as their journals can be read."""
    runs = list(runs)
    recorded = {run.reference for run in runs if run.how != KILLED}
    found: dict[str, CrashFree] = {}
    for strategy, path in list(dict.fromkeys((run.strategy, run.reference) for run in runs if run.reference))[:READ]:
        points = [event for event in journals.events(path)[0] if isinstance(event, Reached)]
        known = found.get(strategy, CrashFree())
        spent = [known.committing, None if path in recorded else _committing(points)]
        found[strategy] = CrashFree(
            known.points | {(point.step, point.phase) for point in points if point.phase in STEP_PHASES},
            min((each for each in spent if each is not None), default=None),
        )
    return found


def _committing(points: Iterable[Reached]) -> float | None:
    points = list(points)
    acted = {point.step: point.at for point in points if point.phase == "after_act"}
    spent = [point.at - acted[point.step] for point in points if point.phase == "after_commit" and point.step in acted]
    return 1000 * sum(spent) / len(acted) if spent else None
