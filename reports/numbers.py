"""What each strategy costs, what it claims, and where it was hit: numbers over the runs whose faults landed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from chaos.plan import PHASES
from chaos.reports.text import middle
from chaos.results import Campaign, RecoveryTime, RunResult
from chaos.verdict import CellVerdict

DRAWN_STEPS = 120  # columns of a coverage grid: more do not fit on paper at a readable size


@dataclass(frozen=True)
class Costs:
    """Medians of one strategy. *rto* is the split of the run with the median RTO, so that its parts add up."""

    strategy: str
    runs: int
    rpo: float | None
    rpo_worst: int | None
    rto: RecoveryTime | None
    useful: float | None
    asked_again: float | None
    retried: float | None
    stored: float | None
    written: float | None


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


@dataclass(frozen=True)
class Coverage:
    """Where the faults of one strategy landed. *hits* counts by (step, phase), *elsewhere* what has no step."""

    strategy: str
    phases: tuple[str, ...]
    steps: int
    hits: Mapping[tuple[int, str], int]
    elsewhere: tuple[tuple[str, int], ...]
    reached: int  # points of the reference run; 0 if unknown

    @property
    def missed_phases(self) -> tuple[str, ...]:
        """Phases in which nothing ever landed."""
        return tuple(phase for phase in self.phases if not any(hit == phase for _, hit in self.hits))


def strategies(campaign: Campaign) -> list[str]:
    """Return the strategies in order of first appearance."""
    return list(dict.fromkeys([c.strategy for c in campaign.cells] + [r.strategy for r in campaign.runs]))


def costs(campaign: Campaign) -> tuple[Costs, ...]:
    """Return the medians of every strategy that ran, in order of first appearance."""
    return tuple(
        _costs(strategy, runs) for strategy in strategies(campaign) if (runs := _exercised(campaign.runs, strategy))
    )


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


def coverage(campaign: Campaign, reached: Mapping[str, frozenset[tuple[int, str]]]) -> tuple[Coverage, ...]:
    """Return where each strategy was hit; *reached* are the points of its reference run, where known."""
    return tuple(
        _coverage(strategy, campaign.runs, reached.get(strategy, frozenset())) for strategy in strategies(campaign)
    )


_AT = re.compile(r"(?P<recovery>recovery/)?(?:(?P<step>\d+)/)?(?P<phase>\w+)")


def place(at: str) -> tuple[int | None, str, bool]:
    """Return step, phase and whether it is during recovery, of a point's text such as "17/after_act"."""
    found = _AT.fullmatch(at)
    if found is None:
        return None, at, False
    return int(found["step"]) if found["step"] else None, found["phase"], bool(found["recovery"])


def _exercised(runs: Iterable[RunResult], strategy: str) -> list[RunResult]:
    """Return the runs of *strategy* that say something: their faults landed and the harness did its work."""
    return [
        run for run in runs if run.strategy == strategy and run.landed and run.verdict is not CellVerdict.HARNESS_ERROR
    ]


def _costs(strategy: str, runs: list[RunResult]) -> Costs:
    timed = sorted((run.rto_seconds for run in runs if run.rto_seconds), key=lambda rto: rto.total)
    return Costs(
        strategy=strategy,
        runs=len(runs),
        rpo=middle(run.rpo_steps for run in runs),
        rpo_worst=max((run.rpo_steps for run in runs), default=None),
        rto=timed[(len(timed) - 1) // 2] if timed else None,
        useful=middle(run.tokens.useful for run in runs),
        asked_again=middle(run.tokens.asked_again for run in runs),
        retried=middle(run.tokens.retried for run in runs),
        stored=middle(run.storage.stored for run in runs),
        written=middle(run.storage.written for run in runs),
    )


def _answers(runs: Iterable[RunResult], strategy: str, name: str) -> list[str]:
    return [run.claims[name] for run in runs if run.strategy == strategy and name in run.claims]


def _coverage(strategy: str, runs: Iterable[RunResult], reached: frozenset[tuple[int, str]]) -> Coverage:
    hits: Counter[tuple[int, str]] = Counter()
    elsewhere: Counter[str] = Counter()
    for landed in (landed for run in runs if run.strategy == strategy for landed in run.landed):
        step, phase, recovering = place(landed.at)
        if step is None or recovering:
            elsewhere[landed.at] += 1
        else:
            hits[step, phase] += 1
    known = {phase for _, phase in (*hits, *reached)}
    steps = max((step for step, _ in (*hits, *reached)), default=-1) + 1
    return Coverage(
        strategy=strategy,
        phases=tuple(sorted(known, key=lambda phase: (PHASES.index(phase) if phase in PHASES else len(PHASES), phase))),
        steps=min(steps, DRAWN_STEPS),
        hits=dict(hits),
        elsewhere=tuple(sorted(elsewhere.items())),
        reached=len(reached | set(hits)) if reached else 0,
    )
