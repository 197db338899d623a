"""One row for each strategy: what it kept, what that cost, and a score whose parts stand beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from chaos.history import percentile
from chaos.reports.advice import FREE_BYTES, Advice, Standing
from chaos.reports.numbers import Costs
from chaos.results import RunResult
from chaos.verdict import Outcome

THRIFT = 0.2
"""What cost has to say in a score: a cheap recovery that is wrong is worth nothing."""

FORMULA = (
    "score = 100 × kept × (0.8 + 0.2 × thrift). Kept is the share of all checks of all runs that passed; one that "
    "could not judge did not. Thrift is the mean of four parts from 0 to 1: steps, 1 ÷ (1 + RPO p95); time, the "
    "shortest RTO p95 of all strategies ÷ its own; tokens, useful ÷ all; bytes, the least stored per step ÷ its own, "
    "all below 1 kB taken for 1 kB. A part that is not known is left out. Duplicate effects count by the check that "
    "they break."
)


@dataclass(frozen=True)
class Parts:
    """What a score is made of, each from 0 to 1; None where it is not known."""

    kept: float
    steps: float | None
    time: float | None
    tokens: float | None
    bytes: float | None


@dataclass(frozen=True)
class Row:
    """The scores of one strategy, beside *costs*. Percentiles are linear between neighbours.

    *passed* of *judged* checks of all runs held. *duplicates* are the effects that happened too often, and the runs in
    which they could be counted. *committing* are the milliseconds per step between an act and the end
    of its commit in a run without a crash, the harness' own share included; None where nobody saw one.
    """

    costs: Costs
    standing: Standing | None
    recommended: bool
    parts: Parts
    score: float
    passed: int
    judged: int
    rpo: tuple[float | None, float | None]
    rto: tuple[float | None, float | None]
    duplicates: tuple[int, int] | None
    committing: float | None

    @property
    def percent(self) -> str:
        """The share of promises kept, rounded down to a tenth, so that 100 means all of them."""
        return f"{1000 * self.passed // self.judged / 10 if self.judged else 0:g}"


def scorecard(
    costs: Sequence[Costs],
    runs: Mapping[str, Sequence[RunResult]],
    advice: Advice,
    duplicates: Mapping[str, tuple[int, int]],
    committing: Mapping[str, float | None],
) -> tuple[Row, ...]:
    """Return the rows, the best score first.

    Args:
        runs: that were exercised, by strategy.
        duplicates: by strategy, as in a row, where they are known.
        committing: milliseconds per step that commits take, where that is known.
    """
    fastest = min((_p95(each.rto) for each in costs if each.rto), default=None)
    leanest = min((_bytes(each.stored) for each in costs if each.stored is not None), default=None)
    rows = []
    for each in costs:
        passed, judged = _promises(runs[each.strategy])
        parts = Parts(
            kept=passed / judged if judged else 0.0,
            steps=1 / (1 + _p95(each.rpo)),
            time=fastest / _p95(each.rto) if fastest and each.rto else None,
            tokens=each.useful / each.tokens if each.tokens else None,
            bytes=leanest / _bytes(each.stored) if leanest and each.stored is not None else None,
        )
        row = Row(
            costs=each,
            standing=advice.of(each.strategy),
            recommended=each.strategy == advice.strategy,
            parts=parts,
            score=score(parts),
            passed=passed,
            judged=judged,
            rpo=(percentile(each.rpo, 0.5), percentile(each.rpo, 0.95)),
            rto=(percentile(each.rto, 0.5), percentile(each.rto, 0.95)),
            duplicates=duplicates.get(each.strategy),
            committing=committing.get(each.strategy),
        )
        rows.append(row)
    return tuple(sorted(rows, key=lambda row: -row.score))


def score(parts: Parts) -> float:
    """Return the score that `FORMULA` names, from 0 to 100."""
    known = [part for part in (parts.steps, parts.time, parts.tokens, parts.bytes) if part is not None]
    return 100 * parts.kept * (1 - THRIFT + THRIFT * (fmean(known) if known else 0.0))


def _promises(runs: Iterable[RunResult]) -> tuple[int, int]:
    outcomes = [verdict.outcome for run in runs for verdict in run.checks.values()]
    return outcomes.count(Outcome.PASS), len(outcomes)


def _p95(values: Sequence[float]) -> float:
    return percentile(values, 0.95) or 0.0


def _bytes(stored: float) -> float:
    return max(stored, FREE_BYTES)
