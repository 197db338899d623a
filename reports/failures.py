"""Failures grouped by cause: cells that fail for the same reason are told once, the worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from chaos import history
from chaos.causes import ORDER, Cause, cause, place
from chaos.reports.cells import SEVERITY, VERDICT_SEVERITY, Cell, State
from chaos.reports.text import anchor, slug
from chaos.results import Campaign, Minimal, RunResult


class News(Enum):
    """What became of a cause since the campaign before."""

    UNKNOWN = ""  # there is none to compare with
    NEW = "new"
    STILL = "still"


@dataclass(frozen=True)
class Before:
    """What broke in the campaign before: its *causes* in words, and the *strategies* that met the same faults then."""

    causes: frozenset[str]
    strategies: frozenset[str]

    def news(self, why: Cause) -> News:
        """Return what became of a cause that is met now."""
        if why.strategy not in self.strategies:
            return News.UNKNOWN
        return News.STILL if why.sentence in self.causes else News.NEW

    def since(self, now: Iterable[Failure]) -> str:
        """Return what is new, still there and gone, as a sentence; *now* are today's failures."""
        told = Counter(each.news for each in now)
        there = {each.cause.sentence for each in now}
        comparable = (one for one in self.causes if any(one.startswith(f"{name} ") for name in self.strategies))
        gone = sum(one not in there for one in comparable)
        return f"Since the campaign before: {told[News.NEW]} new, {told[News.STILL]} still there, {gone} gone."


@dataclass(frozen=True)
class Where:
    """The *runs* of one cell that fail for the same reason."""

    cell: Cell
    runs: tuple[RunResult, ...]


@dataclass(frozen=True)
class Failure:
    """One cause, and where it was met. *expected*: the scenario says that it may break so.

    Args:
        shown: the run whose evidence stands for all: the one that was made smaller, or the worst one.
        minimal: the smallest case that breaks the same promise, if one was looked for; else that of another promise
            that the same run broke (not *exact*).
    """

    anchor: str
    cause: Cause
    expected: bool
    where: tuple[Where, ...]
    shown: RunResult
    minimal: Minimal | None
    news: News = News.UNKNOWN

    @property
    def cell(self) -> Cell:
        """The worst cell that it was met in."""
        return self.where[0].cell

    @property
    def exact(self) -> bool:
        """Whether the smallest case breaks the promise that the cause is named after, in the same place."""
        small = self.minimal
        return small is not None and small.check == self.cause.check and place(small.finding) == self.cause.place

    @property
    def known(self) -> bool:
        """Whether the baseline accepts it wherever it was met."""
        return all(each.cell.state is State.KNOWN for each in self.where)

    @property
    def runs(self) -> int:
        """How many runs fail so."""
        return sum(len(each.runs) for each in self.where)

    @property
    def finding(self) -> str:
        """What the check said of the shown run."""
        verdict = self.shown.checks.get(self.cause.check)
        return verdict.finding if verdict else ""

    @property
    def because(self) -> str:
        """Why the scenario expects it."""
        return self.shown.because if self.expected else ""

    @property
    def replay(self) -> str:
        """The command that runs the smallest case again, or the shown one."""
        smallest = self.minimal.replay if self.minimal and self.exact else ""
        return smallest or self.shown.replay or self.cell.replay


def before(campaign: Campaign, entries: Sequence[history.Entry]) -> Before | None:
    """Return what broke before *campaign*, by the history's *entries*; None if none can be compared."""
    info = campaign.info
    earlier = [each for each in entries if each.campaign != info.campaign and each.began < info.began]
    if not earlier:
        return None
    shapes = {each.strategy: each.shape for each in earlier[-1].strategies}
    same = frozenset(each.strategy for each in history.figures(campaign) if shapes.get(each.strategy) == each.shape)
    return Before(frozenset(earlier[-1].broken), same) if same else None


def failures(cells: Iterable[Cell], since: Before | None = None) -> tuple[Failure, ...]:
    """Return the failures in *cells*: what is not expected first, then the worst, then what was met most often.

    Args:
        since: what broke in the campaign before.
    """
    found: dict[tuple[Cause, bool], list[Where]] = {}
    for cell in cells:
        own: dict[tuple[Cause, bool], list[RunResult]] = {}
        for run in cell.runs:
            if why := cause(run):
                own.setdefault((why, not _unexpected(run)), []).append(run)
        for key, runs in own.items():
            found.setdefault(key, []).append(Where(cell, tuple(runs)))
    taken: set[str] = set()
    return tuple(_failure(*key, places, taken, since) for key, places in sorted(found.items(), key=_rank))


def _unexpected(run: RunResult) -> bool:
    """Tell whether *run* broke more than its scenario allows; a run that stopped broke at least its end."""
    return not run.broke or not set(run.broke) <= set(run.expected)


def _rank(found: tuple[tuple[Cause, bool], list[Where]]) -> tuple[bool, bool, int, int, int, str]:
    (why, expected), places = found
    known = all(each.cell.state is State.KNOWN for each in places)
    verdict = max(VERDICT_SEVERITY[run.verdict] for each in places for run in each.runs)
    promise = ORDER.index(why.check) if why.check in ORDER else len(ORDER)
    return expected, known, -verdict, promise, -sum(len(each.runs) for each in places), why.sentence


def _failure(why: Cause, expected: bool, places: Sequence[Where], taken: set[str], since: Before | None) -> Failure:
    ordered = sorted(places, key=lambda each: (-SEVERITY[each.cell.state], -len(each.runs)))
    minimal = None if expected else _minimal(why, ordered)
    # The run that was made small stands for the others, so that its reproduction and its evidence belong together.
    runs = [run for each in ordered for run in each.runs]
    shown = next((run for run in runs if minimal and minimal.was == _case(run)), None)
    wanted = f"failure-{slug(why.strategy)}-{slug(why.check)}" + (f"-{slug(why.place)}" if why.place else "")
    new = since and not expected and any(each.cell.state is not State.KNOWN for each in ordered)
    return Failure(
        anchor=anchor(wanted + ("-expected" if expected else ""), taken),
        cause=why,
        expected=expected,
        where=tuple(ordered),
        shown=shown or max(runs, key=lambda run: VERDICT_SEVERITY[run.verdict]),
        minimal=minimal,
        news=since.news(why) if since and new else News.UNKNOWN,
    )


def _minimal(why: Cause, places: Sequence[Where]) -> Minimal | None:
    """Return the smallest case that fails for that reason; else that of a run that does, by another of its findings."""
    known = [each for at in places for each in at.cell.minimal]
    cases = {_case(run) for at in places for run in at.runs}
    same = [each for each in known if each.check == why.check and place(each.finding) == why.place]
    own = [each for each in known if each.was in cases]
    return next(iter(sorted(same or own, key=lambda each: (not each.bundle, not each.proven))), None)


def _case(run: RunResult) -> str:
    """Return the case that *run* is, as it is printed."""
    return f"{run.plan}#{run.run}"
