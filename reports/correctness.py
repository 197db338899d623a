"""Recovery correctness as one number per strategy and survival class: the share of runs that came back right.

What a scenario expects plays no part: an expected failure did not recover. Only runs whose planned faults all landed
count, and none in which the harness failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.reports.numbers import strategies
from chaos.reports.text import listing
from chaos.results import Campaign, RunResult
from chaos.verdict import CellVerdict

CLASSES = {
    "process": "disk kept",
    "container": "disk lost",
    "node": "disk lost",
    "store": "store damaged",
    "none": "no crash",
}
"""Survival class to what it means for the agent; a new hostname alone is no class of its own."""


@dataclass(frozen=True)
class Share:
    """Of *runs*, how many recovered.

    Of the others, *with_loss* are right too, but had more work done again than is allowed, and in *but_effects* all
    came back but an effect outside of the sandbox did not happen exactly once, which no strategy can take back.
    """

    recovered: int
    with_loss: int
    but_effects: int
    runs: int

    @property
    def percent(self) -> int:
        """The share that recovered; rounded down, so that 100 means all of them."""
        return 100 * self.recovered // self.runs


@dataclass(frozen=True)
class Correctness:
    """Rows are strategies in order of first appearance; None where a class was not exercised."""

    classes: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Share | None, ...]], ...]

    @property
    def spread(self) -> str:
        """For each class from the lowest to the highest strategy, as a sentence; "" if nothing was exercised."""
        return "; ".join(filter(None, (self._spread(place) for place in range(len(self.classes)))))

    def _spread(self, place: int) -> str:
        shares = {strategy: found[place] for strategy, found in self.rows}
        known = {strategy: share.percent for strategy, share in shares.items() if share}
        if len(known) < 2:
            return ""
        low, high = min(known.values()), max(known.values())
        if low == high:
            return f"{self.classes[place]}: {low} % for all"
        lowest, highest = ([name for name, value in known.items() if value == end] for end in (low, high))
        return f"{self.classes[place]}: from {low} % ({listing(lowest)}) to {high} % ({listing(highest)})"


def correctness(campaign: Campaign) -> Correctness:
    """Return the shares of *campaign*, finished or not."""
    exercised = [run for run in campaign.runs if _counts(run)]
    present = {CLASSES[run.survival] for run in exercised}
    classes = tuple(name for name in dict.fromkeys(CLASSES.values()) if name in present)
    rows = []
    for strategy in strategies(campaign):
        own = [run for run in exercised if run.strategy == strategy]
        found = tuple(_share([run for run in own if CLASSES[run.survival] == name]) for name in classes)
        if any(found):
            rows.append((strategy, found))
    return Correctness(classes, tuple(rows))


def _counts(run: RunResult) -> bool:
    """Tell whether *run* says something: everything planned hit, and the harness did its work."""
    landed = 0 < run.planned == len(run.landed)
    return landed and run.verdict is not CellVerdict.HARNESS_ERROR and run.survival in CLASSES


def _share(runs: Sequence[RunResult]) -> Share | None:
    verdicts = Counter(run.verdict for run in runs)
    if not runs:
        return None
    return Share(
        recovered=verdicts[CellVerdict.RECOVERED],
        with_loss=verdicts[CellVerdict.RECOVERED_WITH_LOSS],
        but_effects=sum(run.verdict is CellVerdict.DIVERGED and run.broke == ("effects",) for run in runs),
        runs=len(runs),
    )
