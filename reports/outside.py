"""What strategies with a half outside the sandbox did there: turns that needed no snapshot, processes brought back.

These are the strategies' own words (`HostDid`), except the audit, which compares every decision with a full diff of the
turn. No verdict depends on them.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaos.reports.numbers import strategies
from chaos.reports.text import number
from chaos.results import Campaign, RunResult


@dataclass(frozen=True)
class Outside:
    """Sums over all runs of *strategy*.

    Args:
        turns: turns that were looked at; *skipped*, *files*, *processes*: what was stored of them.
        audited: turns whose decision was judged by a full diff; *missed*: snapshots that it misses, *needless*: that
            it does not need.
        restored, respawned: recoveries after which the processes had their memory, or were started again.
    """

    strategy: str
    turns: int
    skipped: int
    files: int
    processes: int
    audited: int
    missed: int
    needless: int
    restored: int
    respawned: int

    @property
    def sentence(self) -> str:
        """What there is to say, in a sentence."""
        said = [f"{100 * self.skipped // self.turns} % of {number(self.turns)} turns needed no snapshot"]
        if self.audited:
            said.append(f"by a full diff {self.missed} missed (false negatives), {self.needless} needless")
        if self.restored or self.respawned:
            came = self.restored + self.respawned
            said.append(f"processes came back with their memory in {self.restored} of {came} recoveries")
        return f"{self.strategy}: {'; '.join(said)}"


def outside(campaign: Campaign) -> tuple[Outside, ...]:
    """Return one entry for each strategy that told of its turns, in order of first appearance."""
    found = (_of(name, [run for run in campaign.runs if run.strategy == name]) for name in strategies(campaign))
    return tuple(each for each in found if each.turns)


def _of(strategy: str, runs: list[RunResult]) -> Outside:
    turns = [run.outside["turns"] for run in runs if "turns" in run.outside]
    how = [run.outside["processes"].get("how") for run in runs if "processes" in run.outside]
    audits = [told for told in turns if "false_negatives" in told]

    def total(told: list[dict[str, str | int | float | bool]], name: str) -> int:
        return sum(int(figures.get(name, 0)) for figures in told)

    return Outside(
        strategy=strategy,
        turns=total(turns, "turns"),
        skipped=total(turns, "skip"),
        files=total(turns, "files"),
        processes=total(turns, "processes"),
        audited=total(audits, "turns"),
        missed=total(audits, "false_negatives"),
        needless=total(audits, "false_positives"),
        restored=how.count("restored"),
        respawned=how.count("respawned"),
    )
