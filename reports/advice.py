"""Which strategy to take: the cheapest of those that keep what was demanded. From a campaign alone.

Demanded is what the scenarios check, but for what they expect every strategy to break. Under a fault it is kept if all
of it held in every run; a run that missed, and what could not be judged or was not tried, leaves it open. Of a run that
refused to go on, as its scenario allows it to, nothing else is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from statistics import fmean

from chaos.reports.numbers import by_strategy, strategies
from chaos.reports.text import listing, number, plural, size
from chaos.results import Campaign, RunResult
from chaos.verdict import CellVerdict, Outcome

Column = tuple[str, str]  # a scenario and its fault
Promise = tuple[str, str, str]  # scenario, fault, check

SAME_TOKENS = 0.01
"""Of the tokens that a run needs: less than that is a matter of which step was hit, and no reason to choose."""

SAME_BYTES = 0.05
FREE_BYTES = 1_000
"""Stored per step: one strategy that stores less than 5 % more, or less than 1 kB, is as good as another."""

ORDER = (
    "Cheapest means: fewest tokens asked again or refused, where less than 1 % of a run's useful tokens counts as no "
    "difference; then fewest bytes stored per step, where 5 % more, and all below 1 kB, count as none; then the "
    "shortest recovery. Each is a mean over the faults that all who are compared were tried with."
)


class Answer(IntEnum):
    """What all runs of a strategy say about one promise; the largest counts."""

    NOT_ASKED = 0
    KEPT = 1
    OPEN = 2  # it could not be judged, or the fault missed
    BROKEN = 3


@dataclass(frozen=True)
class Standing:
    """How one strategy stands to what was demanded: under which faults it was kept, and what was broken.

    *open* are the faults under which it is neither: they were not tried, or not all could be judged. A *control* claims
    to restore nothing, beside others that do.
    """

    strategy: str
    kept: tuple[Column, ...]
    broken: tuple[Promise, ...]
    open: tuple[Column, ...]
    control: bool

    @property
    def faults(self) -> int:
        """How many faults something was demanded under."""
        return len({promise[:2] for promise in self.broken}) + len(self.kept) + len(self.open)


@dataclass(frozen=True)
class Advice:
    """Whom to take and why; "" in *strategy* if nobody can be recommended. *demanded* says what it was derived from."""

    strategy: str
    sentence: str
    demanded: str
    standings: tuple[Standing, ...]

    @property
    def keeps_all(self) -> bool:
        """Whether the strategy to take keeps everything that was demanded."""
        chosen = self.of(self.strategy)
        return chosen is not None and len(chosen.kept) == chosen.faults

    def of(self, strategy: str) -> Standing | None:
        """Return how *strategy* stands; None if it has no runs."""
        return next((each for each in self.standings if each.strategy == strategy), None)


@dataclass(frozen=True)
class Price:
    """What a run of a strategy costs in the mean; infinite where it is not known."""

    tokens: float
    useful: float
    stored: float
    rto: float


def advice(campaign: Campaign) -> Advice:
    """Return what the results of *campaign*, finished or not, speak for."""
    answers = {name: _answers(campaign.runs, name) for name in strategies(campaign)}
    answers = {name: found for name, found in answers.items() if found}
    checked = {promise for found in answers.values() for promise in found}
    wanted = {(*_column(run), check) for run in campaign.runs for check in run.checks if check not in run.expected}
    waived = checked - wanted
    claiming = {run.strategy for run in campaign.runs if run.claims}
    standings = tuple(
        _standing(name, found, checked & wanted, control=bool(claiming) and name not in claiming)
        for name, found in answers.items()
    )
    chosen, sentence = _chosen(campaign, standings)
    return Advice(chosen, sentence, _demanded(checked & wanted, waived), standings)


def cheapest(prices: Mapping[str, Price]) -> str:
    """Return the cheapest of *prices*, as `ORDER` says; of equals the first."""
    left = list(prices)
    slack = SAME_TOKENS * min(price.useful for price in prices.values())
    least = min(price.tokens for price in prices.values())
    left = [name for name in left if prices[name].tokens <= least + slack]
    least = max(min(prices[name].stored for name in left), FREE_BYTES)
    left = [name for name in left if prices[name].stored <= least * (1 + SAME_BYTES)]
    return min(left, key=lambda name: prices[name].rto)


def prices(campaign: Campaign, names: Sequence[str]) -> dict[str, Price]:
    """Return what runs of the strategies *names* cost, each fault that all of them were tried with counted once."""
    runs = by_strategy(campaign)
    own = {name: {_column(run) for run in runs.get(name, ())} for name in names}
    shared = set.intersection(*own.values()) if own else set()
    return {name: _price(runs.get(name, []), shared or own[name]) for name in names}


def _price(runs: Iterable[RunResult], columns: set[Column]) -> Price:
    found: dict[Column, list[RunResult]] = {column: [] for column in columns}
    for run in runs:
        if _column(run) in found:
            found[_column(run)].append(run)

    def mean(of: Callable[[RunResult], float | None]) -> float:
        known = [[value for run in each if (value := of(run)) is not None] for each in found.values()]
        return fmean(map(fmean, filter(None, known))) if any(known) else math.inf

    return Price(
        tokens=mean(lambda run: run.tokens.asked_again + run.tokens.retried),
        useful=mean(lambda run: run.tokens.useful),
        stored=mean(lambda run: run.storage.stored / run.steps if run.steps else None),
        rto=mean(lambda run: run.rto_seconds.total if run.rto_seconds else None),
    )


def _answers(runs: Iterable[RunResult], strategy: str) -> dict[Promise, Answer]:
    """Return what the runs of *strategy* say about each promise that was checked in them."""
    found: dict[Promise, Answer] = {}
    for run in runs:
        if run.strategy == strategy:
            for check in run.checks:
                promise = (*_column(run), check)
                found[promise] = max(found.get(promise, Answer.NOT_ASKED), _answer(run, check))
    return found


def _answer(run: RunResult, check: str) -> Answer:
    if run.verdict in (CellVerdict.NOT_EXERCISED, CellVerdict.HARNESS_ERROR) or len(run.landed) < run.planned:
        return Answer.OPEN
    outcome = run.checks[check].outcome
    if outcome is Outcome.UNKNOWN:
        return Answer.NOT_ASKED if "finishes" in run.broke and "finishes" in run.expected else Answer.OPEN
    return Answer.KEPT if outcome is Outcome.PASS else Answer.BROKEN


def _column(run: RunResult) -> Column:
    return run.scenario, run.fault


def _standing(strategy: str, answers: Mapping[Promise, Answer], wanted: set[Promise], *, control: bool) -> Standing:
    worst: dict[Column, Answer] = {}
    for promise in sorted(wanted):
        column = promise[:2]
        worst[column] = max(worst.get(column, Answer.NOT_ASKED), answers.get(promise, Answer.OPEN))
    kept, unknown = (
        tuple(column for column, said in worst.items() if said in those)
        for those in ((Answer.NOT_ASKED, Answer.KEPT), (Answer.OPEN,))
    )
    broken = tuple(promise for promise in sorted(wanted) if answers.get(promise) is Answer.BROKEN)
    return Standing(strategy, kept, broken, unknown, control)


def _chosen(campaign: Campaign, standings: Sequence[Standing]) -> tuple[str, str]:
    """Return whom to take and the sentence that says so."""
    faults = max((each.faults for each in standings), default=0)
    judged = [each for each in standings if each.kept or each.broken]
    if not faults or not judged:
        return "", "Nothing that was demanded could be judged, so no strategy can be recommended."
    least = min(map(_lost, judged))
    best = [each for each in judged if _lost(each) == least]
    found = prices(campaign, [each.strategy for each in best])
    chosen = next(each for each in best if each.strategy == cheapest(found))
    cost = _cost(found[chosen.strategy])
    control = " It is a control, which claims to restore nothing." if chosen.control else ""
    if len(chosen.kept) == faults:
        return chosen.strategy, _taken(chosen, best, cost) + control
    verb = "kept" if all(each.broken for each in standings) else "was shown to keep"
    everything = f"all {faults} faults" if faults > 1 else "the fault"
    loss = _loss(chosen, several=len({run.scenario for run in campaign.runs}) > 1)
    among = f" It is the cheapest of {len(best)} that lose as little, {cost}." if best[1:] else ""
    return chosen.strategy, (
        f"No strategy {verb} what was demanded under {everything}. {chosen.strategy} loses least: kept under "
        f"{len(chosen.kept) or 'none'} of them, {loss}.{among}{control}"
    )


def _taken(chosen: Standing, best: Sequence[Standing], cost: str) -> str:
    """Return the sentence about *chosen*, which keeps everything, as all of *best* do."""
    under = f"all {chosen.faults} faults" if chosen.faults > 1 else "the fault"
    if len(best) == 1:
        return f"Take {chosen.strategy}: it alone kept what was demanded under {under}, {cost}."
    names = listing([each.strategy for each in best])
    kept = f"of the {len(best)} that kept what was demanded under {under} ({names})"
    return f"Take {chosen.strategy}: {kept} it is the cheapest, {cost}."


def _lost(standing: Standing) -> tuple[int, bool, int]:
    """Return what to compare: controls come after those that keep as much as they do."""
    return -len(standing.kept), standing.control, len(standing.broken)


def _cost(price: Price) -> str:
    again = f"with {number(round(price.tokens))} tokens of a run paid for in vain"
    return f"{again} and {size(price.stored)} stored per step" if math.isfinite(price.stored) else again


def _loss(standing: Standing, *, several: bool) -> str:
    """Return under which faults *standing* broke what, and which are open."""
    broken: dict[str, list[str]] = {}
    for scenario, fault, check in standing.broken:
        broken.setdefault(f"{scenario} {fault}" if several else fault, []).append(check)
    told = [f"{fault} ({listing(checks)})" for fault, checks in broken.items()]
    unknown = [f"{scenario} {fault}" if several else fault for scenario, fault in standing.open]
    parts = [f"broken under {listing(told)}" if told else "", f"open under {listing(unknown)}" if unknown else ""]
    return "; ".join(filter(None, parts))


def _demanded(wanted: set[Promise], waived: set[Promise]) -> str:
    """Return what is demanded and what it was derived from."""
    faults = {promise[:2] for promise in wanted}
    told = (
        f"Demanded is what the scenarios check: {plural(len(wanted), 'promise')}, each one check against one of "
        f"{plural(len(faults), 'fault')} of {plural(len({name for name, _ in faults}), 'scenario')}, in every run"
    )
    if not waived:
        return f"{told}."
    by_fault: dict[str, set[str]] = {}
    for _, fault, check in sorted(waived):
        by_fault.setdefault(fault, set()).add(check)
    left_out = listing([f"{fault} ({listing(sorted(checks))})" for fault, checks in by_fault.items()], most=4)
    return f"{told}; not what they expect every strategy to break: {left_out}."
