"""How the runs of a campaign were made: each from its start, or derived from captured crash states."""

from __future__ import annotations

from collections import Counter, defaultdict

from chaos.reports.text import listing, plural
from chaos.results import DERIVED, EQUAL, KILLED, Campaign

MANY = 24
"""Runs of a cell from which on it is told why they were not derived: of fewer nobody expects it."""


def made_how(campaign: Campaign) -> list[str]:
    """Return how the runs of those cells were made that have derived ones, and why others with many have none."""
    derived = {(run.scenario, run.strategy, run.fault) for run in campaign.runs if run.how != KILLED}
    runs = [run for run in campaign.runs if (run.scenario, run.strategy, run.fault) in derived]
    how = Counter(run.how for run in runs if not run.error)
    lines = []
    if runs:
        failed = sum(bool(run.error) for run in runs)
        distinct = sum(not run.like for run in runs)
        share = f"{how[KILLED]} killed for real, {how[DERIVED]} resumed from captured crash states"
        lines.append(
            f"{plural(len(runs), 'crash point')}, {distinct} distinct, {f'{failed} not' if failed else 'all'} covered: "
            f"{share}, {how[EQUAL]} equal to one of these"
        )
    reasons = defaultdict(list)
    for cell in campaign.cells:
        if cell.real_because and cell.runs >= MANY and (cell.scenario, cell.strategy, cell.fault) not in derived:
            reasons[cell.real_because].append(f"{cell.strategy} x {cell.fault}")
    return [*lines, *(f"made from their start: {listing(names)}: {why}" for why, names in reasons.items())]
