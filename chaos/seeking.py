"""The runs of a seeker: each plan is chosen by what became of those before it, and some of them say nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from chaos import judge
from chaos.examples import Examples
from chaos.explorers import Covered, Seeker, Tried
from chaos.explorers.pairs import Pairs
from chaos.explorers.search import Search
from chaos.plan import Case, Plan
from chaos.results import RunResult
from chaos.trial import Trial
from chaos.variants import Variants


@dataclass
class Seeking:
    """What *seeker* does with *trial*: *keep* gets every run that counts.

    A run of a search or of pairs in which nothing hit, or an injected fault left no proof, is discarded: it is neither
    exercised nor held against the cell.

    Args:
        runs: how many runs are wanted at most.
        rng: what plans are drawn from.
    """

    trial: Trial
    seeker: Seeker
    runs: int
    rng: random.Random
    examples: Examples
    keep: Callable[[RunResult], None]
    used: set[int] = field(default_factory=set)
    hits: int = 0

    def go(self) -> Covered:
        """Try what broke the cell in an earlier campaign, then what the seeker plans; say what was covered."""
        again = self._again() if isinstance(self.seeker, Search) else ()
        if not again:
            return self._seek()
        plans = f"{len(again)} plan{'s'[: len(again) - 1]} of an earlier campaign tried first"
        if broke := sum(bool(tried.broke) for tried in again):
            return Covered(f"{plans}, of which {broke} broke it again")
        covered = self._seek()
        return covered._replace(told="; ".join(filter(None, (plans, covered.told))))

    def _seek(self) -> Covered:
        cell, points = self.trial.cell, self.trial.reference.points
        covered = self.seeker.seek(points, cell.fault, self.runs, self.rng, self._attempt) or Covered("")
        if self.used and not self.hits:  # what may miss must not pass for want of any hit
            return Covered("", covered.gap or "no planned fault hit in any run")
        return covered

    def _again(self) -> tuple[Tried, ...]:
        """Try the examples, and forget those that break nothing any more."""
        faults = Variants(self.trial.setup.faults)
        found = []
        for case in self.examples.kept(faults):
            found.append(self._try(case))
            if not found[-1].broke:
                self.examples.drop(case)
        return tuple(found)

    def _attempt(self, plan: Plan) -> Tried:
        return self._try(Case(plan, next(number for number in count() if number not in self.used)))

    def _try(self, case: Case) -> Tried:
        self.used.add(case.run)
        result = self.trial.run(case, may_miss=True)
        landed = len(result.landed) == result.planned and not result.unreached
        tried = Tried(landed, judge.unexpected(result), len(result.unreached))
        if self._says_nothing(result):
            return Tried(landed=False, broke=tried.broke)
        self.hits += bool(result.landed)
        self.keep(result)
        if tried.broke and isinstance(self.seeker, Search):
            self.examples.keep(case)
        return tried

    def _says_nothing(self, result: RunResult) -> bool:
        missed = bool(result.missed) or not result.landed
        return missed and not result.error and isinstance(self.seeker, Search | Pairs)
