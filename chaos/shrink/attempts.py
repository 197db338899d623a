"""Candidates run for real: whether they fail in the same way as what is shrunk, until the budget is spent."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple, cast

from chaos import judge, registry
from chaos.cell import chain_of, store_of
from chaos.errors import HarnessError
from chaos.faults import Fault
from chaos.plan import Case, Plan, PlannedFault, Point
from chaos.results import RunResult
from chaos.sandbox import Survival
from chaos.shrink import Spent
from chaos.shrink.candidate import Candidate, Hit
from chaos.shrink.fields import changed
from chaos.shrink.places import moved
from chaos.targets import Target
from chaos.trial import Trial
from chaos.variants import Variants, name_of
from chaos.verdict import CellVerdict

DEATHS = ("kill", "oom_kill", "evict")
"""Ends of an agent, the simplest first: each takes away what the one before it does, and more. Another fault that ends
the agent may be no more than one of these."""

REFUSALS = ("rate_limit", "overloaded")

NO_FAILURE = frozenset({CellVerdict.NOT_EXERCISED, CellVerdict.UNKNOWN, CellVerdict.HARNESS_ERROR})

REFERENCE_RUNS = 2  # a reference runs twice; another target needs one of its own


_MORE = re.compile(r" \(and \d+ more\)")
_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\S*/\S*|\$\.\S*|\b[0-9a-f]{8,}\b|\d+(?:\.\d+)?")
"""Quotations, commands, paths, digests and numbers: what a finding says of one run, and not of what is broken."""


class Failure(NamedTuple):
    """What makes two failures the same.

    The verdict of the run; a *check* that broke and was not expected to; and *what* it found, but for what is
    particular to one run. Without the last, a charge that is made twice could end as a mail that is sent twice, which
    is another bug, or none.
    """

    verdict: CellVerdict
    check: str
    what: str

    def is_of(self, run: RunResult) -> bool:
        """Tell whether *run* failed so; one in which a fault missed, or that could not be judged, did not.

        It may have found other things as well, and named them first.
        """
        same = any(failure[:2] == self[:2] for failure in failures(run))
        details = run.checks[self.check].details if self.check in run.checks else ()
        return same and self.what in map(_general, (found(run, self.check), *details))


def failures(run: RunResult) -> tuple[Failure, ...]:
    """Return the failures of *run* that its scenario does not expect, in the order of its checks."""
    if run.verdict in NO_FAILURE:
        return ()
    broke = judge.unexpected(run)
    names = [*run.broke, *sorted(broke - set(run.broke))]  # the latter: verdicts, where no check stands for them
    return tuple(Failure(run.verdict, name, _general(found(run, name))) for name in names if name in broke)


def found(run: RunResult, check: str) -> str:
    """Return what *check* found in *run*; the verdict where no check stands for it."""
    return run.checks[check].finding if check in run.checks else str(run.verdict)


def _general(finding: str) -> str:
    """Return what *finding* says of any run: "2 steps lost" is what "1 step lost" is."""
    return re.sub(r"# (\w+?)s\b", r"# \1", _PARTICULAR.sub("#", _MORE.sub("", finding)))


class Attempts:
    """The ground of one search, and its predicate. *runs* counts them; *over* says what ended it early.

    Args:
        trial: of the cell.
        failure: what is shrunk on.
        trial_of: makes the trial of the same cell with another target.
        aside: where journals of attempts go, in the results folder.
        most: runs at most, those of references too.
        deadline: when there is no more time, by *clock*, in seconds.
    """

    def __init__(
        self,
        trial: Trial,
        failure: Failure,
        trial_of: Callable[[Target], Trial],
        aside: Path,
        most: int,
        deadline: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.runs, self.over = 0, ""
        self._trial, self._failure, self._trial_of, self._aside = trial, failure, trial_of, aside
        self._most, self._deadline, self._clock = most, deadline, clock
        self._trials: dict[Target, Trial | None] = {trial.cell.scenario.target: trial}

    def fails(self, candidate: Candidate) -> bool:
        """Run *candidate*; tell whether it fails in the same way."""
        trial = self._of(candidate.target)
        if trial is None:
            return False
        self._spend(1)
        plan, faults = planned(candidate, trial.setup.faults)
        setup = dataclasses.replace(trial.setup, faults=faults)
        # Made from its start, as by whoever runs it again; derived ones would be gone on from when the journal is not.
        real = dataclasses.replace(trial, setup=setup, deriver=None, aside=self._aside)
        return self._failure.is_of(real.run(Case(plan, candidate.run)))

    def points(self, target: Target) -> Sequence[Point]:
        trial = self._of(target)
        return trial.reference.points if trial else ()

    def moved(self, points: Sequence[Point], old: Target, new: Target) -> Iterable[tuple[Point, ...]]:
        before, after = self._of(old), self._of(new)
        if before is None or after is None:
            return ()
        return moved(points, before.reference.record, old.steps, after.reference.record, new.steps)

    def kinds(self, hit: Hit) -> Iterator[Hit]:
        for kinds in (DEATHS, REFUSALS):
            dies = kinds is DEATHS and hit.fault.survival is not Survival.NONE
            for kind in kinds[: kinds.index(hit.kind)] if hit.kind in kinds else kinds if dies else ():
                fault = cast(Fault, registry.load("faults", kind)())
                if (requests := getattr(hit.fault, "requests", None)) is not None:
                    fault = changed(fault, requests=requests) or fault
                if self._possible(fault):
                    yield Hit(kind, kind, fault, hit.point)

    def _possible(self, fault: Fault) -> bool:
        cell, backend = self._trial.cell, self._trial.setup.backend
        return not (fault.missing(backend.able()) or fault.unsuited(store_of(cell.strategy), cell.strategy.strategy))

    def _of(self, target: Target) -> Trial | None:
        """Return the trial of *target*; None if its crash-free run is unfit to compare with."""
        if target not in self._trials:
            self._spend(REFERENCE_RUNS)
            try:
                trial = self._trial_of(target)
            except HarnessError:
                self._trials[target] = None
            else:
                self._trials[target] = None if trial.reference.unfit else trial
        return self._trials[target]

    def _spend(self, runs: int) -> None:
        if self.runs + runs > self._most:
            self.over = f"{self._most} runs were not enough"
        elif self._clock() > self._deadline:
            self.over = "the time was over"
        if self.over:
            raise Spent
        self.runs += runs


def candidate_of(trial: Trial, run: RunResult, plan: Plan) -> Candidate | None:
    """Return what *run* did under *plan*, without the faults that never hit; None if it names one *trial* has not."""
    specs = {spec.label: spec for spec in chain_of(trial.cell.fault)}
    hits = []
    for each in plan.faults[: len(plan.faults) - len(run.unreached)]:
        spec, fault = specs.get(name_of(each.fault)), Variants(trial.setup.faults).get(each.fault)
        if spec is None or fault is None:
            return None
        hits.append(Hit(spec.label, spec.kind, fault, each.point))
    return Candidate(tuple(hits), trial.cell.scenario.target, run.run)


def planned(candidate: Candidate, known: Mapping[str, Fault]) -> tuple[Plan, Variants]:
    """Return the plan of *candidate*, and what its labels mean: the *known* faults, others by their kinds, variants."""
    named = dict(known)
    labels = []
    for hit in candidate.hits:
        numbered = (f"{hit.kind}-{number}" for number in count(2))  # where a fault of another kind has the name
        kind = type(hit.fault)
        name = next(
            each for each in chain((hit.label, hit.kind), numbered) if isinstance(named.setdefault(each, kind()), kind)
        )
        labels.append(Variants(named).label(name, hit.fault))
    points = (hit.point for hit in candidate.hits)
    return Plan(tuple(map(PlannedFault, labels, points))), Variants(named)
