"""Recovery determinism: two runs of one plan, with the same random choices, must not differ."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from chaos import journal, judge
from chaos.checks._diff import limited
from chaos.record import Record
from chaos.verdict import CellVerdict, Outcome, Verdict, fail, worst

if TYPE_CHECKING:
    from chaos.plan import Case
    from chaos.results import RunResult
    from chaos.trial import Trial

NAME = "determinism"
"""What is broken where runs differ; it stands among the checks, and is asked for by `repeat`."""

MAX_SHOWN = 5


def differences(first: Record, second: Record) -> tuple[str, ...]:
    """Return what differs between two runs of one plan: the points, how it ended, and all that two references share."""
    return (*_points(first, second), *judge.disagreements(first, second))


def _points(first: Record, second: Record) -> list[str]:
    """Return the first point at which the two part."""
    pairs = zip_longest(*([(p.attempt, p.step, p.phase) for p in run.points] for run in (first, second)))
    for number, (one, other) in enumerate(pairs):
        if one != other:
            here, there = (f"{e[1]}/{e[2]} of attempt {e[0]}" if e else "the end" for e in (one, other))
            return [f"points: after {number} of them {here} in one run, {there} in the other"]
    return []


def repeated(trial: Trial, case: Case, times: int) -> RunResult:
    """Run *case* of *trial* so many *times*, each from its start; return the worst result, with what differs."""
    alone = replace(trial, deriver=None)
    results: list[RunResult] = []
    records: list[Record] = []
    for turn in range(times):
        results.append((replace(alone, aside=_aside(results[0], turn)) if turn else alone).run(case))
        if results[-1].error:
            return results[-1]
        events = journal.read(trial.folder / results[-1].journal)
        records.append(Record(events, trial.setup.volatile))
    verdict = worst(result.verdict for result in results)
    shown = next(result for result in results if result.verdict is verdict)
    verdicts = {str(result.verdict) for result in results}
    found = [f"verdict: {' in one run, '.join(sorted(verdicts))} in another"] if len(verdicts) > 1 else []
    found += [line for record in records[1:] for line in differences(records[0], record)]
    return _broken(shown, times, tuple(dict.fromkeys(found))) if found else _kept(shown, times)


def _aside(first: RunResult, turn: int) -> Path:
    return Path(first.journal).parent / f"again-{turn}"


def _kept(result: RunResult, times: int) -> RunResult:
    passed = Verdict(Outcome.PASS, f"{times} runs went the same way")
    return msgspec.structs.replace(result, checks={**result.checks, NAME: passed})


def _broken(result: RunResult, times: int, found: tuple[str, ...]) -> RunResult:
    """Return *result* with the promise broken that equal plans go the same way."""
    finding = f"{times} runs of this plan, with the same random choices, differ: {found[0]}"
    failed = fail(finding, limited(found[1:], MAX_SHOWN))
    recovered = result.verdict in (CellVerdict.RECOVERED, CellVerdict.RECOVERED_WITH_LOSS)
    return msgspec.structs.replace(
        result,
        checks={**result.checks, NAME: failed},
        broke=(*result.broke, NAME),
        verdict=CellVerdict.DIVERGED if recovered else result.verdict,
    )
