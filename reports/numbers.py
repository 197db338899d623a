"""What each strategy costs and what it claims: numbers over the runs whose faults landed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from chaos.reports.text import middle
from chaos.results import Campaign, RecoveryTime, RunResult
from chaos.verdict import CellVerdict

NEVER_BACK = frozenset({CellVerdict.REFUSED, CellVerdict.STUCK})
"""Verdicts of runs that did not come to their end: the time until they gave up is no recovery time."""


@dataclass(frozen=True)
class Costs:
    """What the runs of one strategy cost.

    *rpo* are the steps that each run lost, *rto* the seconds of each that crashed and came back, both ascending; *away*
    crashed and never came back. *split* is the run with the median RTO, so that its parts add up. Tokens are means of
    a run, for they add up too; bytes are medians, by the steps that were done.
    """

    strategy: str
    runs: int
    rpo: tuple[int, ...]
    rto: tuple[float, ...]
    away: int
    split: RecoveryTime | None
    useful: float
    asked_again: float
    retried: float
    stored: float | None
    written: float | None

    @property
    def wasted(self) -> float:
        """Tokens of a run that bought nothing new."""
        return self.asked_again + self.retried

    @property
    def tokens(self) -> float:
        """All tokens of a run."""
        return self.useful + self.wasted


@dataclass(frozen=True)
class Claim:
    """What became of one claim of one strategy over its runs."""

    kept: int
    refuted: int
    not_judged: int


@dataclass(frozen=True)
class Claims:
    """Rows of the claims table: None where the strategy does not claim it."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Claim | None, ...]], ...]


def strategies(campaign: Campaign) -> list[str]:
    """Return the strategies in order of first appearance."""
    return list(dict.fromkeys([c.strategy for c in campaign.cells] + [r.strategy for r in campaign.runs]))


def by_strategy(campaign: Campaign) -> dict[str, list[RunResult]]:
    """Return the runs of every strategy that say something, in order of first appearance."""
    found: dict[str, list[RunResult]] = {strategy: [] for strategy in strategies(campaign)}
    for run in campaign.runs:
        if exercised(run):
            found[run.strategy].append(run)
    return {strategy: runs for strategy, runs in found.items() if runs}


def exercised(run: RunResult) -> bool:
    """Tell whether *run* says something: a fault landed, and the harness did its work."""
    return bool(run.landed) and run.verdict is not CellVerdict.HARNESS_ERROR


def costs(campaign: Campaign) -> tuple[Costs, ...]:
    """Return the costs of every strategy that was exercised, in order of first appearance."""
    return tuple(_costs(strategy, runs) for strategy, runs in by_strategy(campaign).items())


def claims(campaign: Campaign) -> Claims:
    """Return what became of each strategy's claims."""
    names = tuple(dict.fromkeys(name for run in campaign.runs for name in run.claims))
    rows: list[tuple[str, tuple[Claim | None, ...]]] = []
    for strategy in strategies(campaign):
        counted = {name: Counter(_answers(campaign.runs, strategy, name)) for name in names}
        found = tuple(
            Claim(n["kept"], n["refuted"], n.total() - n["kept"] - n["refuted"]) if n else None
            for n in counted.values()
        )
        if any(found):
            rows.append((strategy, found))
    return Claims(names, tuple(rows))


_AT = re.compile(r"(?P<recovery>recovery/)?(?:(?P<step>\d+)/)?(?P<phase>\w+)")


def place(at: str) -> tuple[int | None, str, bool]:
    """Return step, phase and whether it is during recovery, of a point's text such as "17/after_act"."""
    found = _AT.fullmatch(at)
    if found is None:
        return None, at, False
    return int(found["step"]) if found["step"] else None, found["phase"], bool(found["recovery"])


def _costs(strategy: str, runs: list[RunResult]) -> Costs:
    timed = [run for run in runs if run.rto_seconds]
    back = sorted((run.rto_seconds for run in timed if run.verdict not in NEVER_BACK and run.rto_seconds), key=_total)
    return Costs(
        strategy=strategy,
        runs=len(runs),
        rpo=tuple(sorted(run.rpo_steps for run in runs)),
        rto=tuple(time.total for time in back),
        away=len(timed) - len(back),
        split=back[(len(back) - 1) // 2] if back else None,
        useful=fmean(run.tokens.useful for run in runs),
        asked_again=fmean(run.tokens.asked_again for run in runs),
        retried=fmean(run.tokens.retried for run in runs),
        stored=middle(run.storage.stored / run.steps for run in runs if run.steps),
        written=middle(run.storage.written / run.steps for run in runs if run.steps),
    )


def _total(time: RecoveryTime) -> float:
    return time.total


def _answers(runs: Iterable[RunResult], strategy: str, name: str) -> list[str]:
    return [run.claims[name] for run in runs if run.strategy == strategy and name in run.claims]
