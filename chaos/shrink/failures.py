"""The failures of a cell, each made as small as it gets: what is shrunk, proved again on its own, and kept."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from chaos import judge
from chaos.cell import Cell
from chaos.errors import HarnessError, ScenarioError
from chaos.plan import Case, parse_plan
from chaos.results import CellResult, Minimal, RunResult
from chaos.shrink import bundle, shrink
from chaos.shrink.alone import alone
from chaos.shrink.attempts import Attempts, Failure, candidate_of, failures, found, planned
from chaos.shrink.candidate import Candidate
from chaos.shrink.fields import DATA, STEPS
from chaos.shrink.simpler import Simplifications
from chaos.targets import Target
from chaos.trial import Trial
from chaos.verdict import CellVerdict

SECONDS = 60.0
"""Spent on shrinking one failure at most: what a job can spare, and a hundred short runs."""

SECONDS_IN_ALL = 300.0
"""Spent by one process on shrinking: where everything is broken, the first failures tell the most."""

MOST = 3
"""Failures of one cell that are shrunk: one that breaks everything everywhere would have dozens of different ones."""


class Shrinker:
    """Makes the failures of cells small, one cell after the other.

    Args:
        trial_of: makes the trial of a cell, its reference runs included.
        most: runs for one failure at most; 0: nothing is shrunk.
        keep: called with the result of a cell when an interrupt comes.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        trial_of: Callable[[Cell], Trial],
        most: int,
        keep: Callable[[CellResult], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._trial_of, self._most, self._keep, self._clock = trial_of, most, keep, clock
        self._left = SECONDS_IN_ALL

    def shrunk(self, trial: Trial, runs: Sequence[RunResult], result: CellResult) -> CellResult:
        """Return *result* of the *runs* of *trial* with each of its failures as small as it gets."""
        if not self._most or not any(failures(run) for run in runs):
            return result
        if self._left <= 0:
            why = f"{result.why}; not made smaller: {SECONDS_IN_ALL:g} s were spent on the failures of other cells"
            return msgspec.structs.replace(result, why=why)
        began = self._clock()
        try:
            found = Shrinking(trial, self._trial_of, self._most, self._clock).minimals(runs)
            return msgspec.structs.replace(result, minimal=found)
        except KeyboardInterrupt:
            self._keep(result)  # its runs are all there
            raise
        except Exception as error:  # a bug of ours must not cost what the runs have shown
            why = f"{result.why}; its failures were not made smaller: {type(error).__name__}: {error}"
            return msgspec.structs.replace(result, why=why)
        finally:
            self._left -= self._clock() - began


@dataclass(frozen=True)
class Shrinking:
    """Shrinks the failures of the cell of *trial*.

    Args:
        trial_of: makes the trial of another cell, its reference runs included.
        most: runs for one failure at most.
        clock: seconds that only grow.
    """

    trial: Trial
    trial_of: Callable[[Cell], Trial]
    most: int
    clock: Callable[[], float] = time.monotonic

    def minimals(self, runs: Sequence[RunResult]) -> tuple[Minimal, ...]:
        """Return the smallest case of each different failure among *runs* that the scenario does not expect."""
        minimals: list[Minimal] = []
        shown = set[tuple[CellVerdict, str]]()
        for run in _different(runs):
            new = [each for each in failures(run) if (each.verdict, each.check) not in shown]
            if new and len(minimals) < MOST:
                minimal, broke = self._shrunk(run, new[0], len(minimals))
                shown |= {(run.verdict, name) for name in (new[0].check, *broke)}
                minimals.append(minimal)
        return tuple(minimals)

    def _shrunk(self, run: RunResult, failure: Failure, number: int) -> tuple[Minimal, frozenset[str]]:
        """Return the smallest case of *failure*, which *run* shows, and all that it breaks."""
        case = Case(parse_plan(run.plan), run.run)
        minimal = Minimal(
            verdict=run.verdict,
            check=failure.check,
            finding=found(run, failure.check),
            was=str(case),
            case=str(case),
            replay=run.replay,
        )
        start = candidate_of(self.trial, run, case.plan)
        if start is None:
            return msgspec.structs.replace(minimal, why="its plan names faults that this cell has not"), frozenset()
        aside = Path("runs", run.scenario, run.strategy, run.fault, f"smaller-{run.run}")
        try:
            return self._searched(start, failure, minimal, aside, number)
        finally:
            shutil.rmtree(self.trial.folder / aside, ignore_errors=True)

    def _searched(
        self, start: Candidate, failure: Failure, minimal: Minimal, aside: Path, number: int
    ) -> tuple[Minimal, frozenset[str]]:
        deadline = self.clock() + SECONDS
        attempts = Attempts(self.trial, failure, self._with, aside, self.most - 1, deadline, self.clock)
        shrunk = shrink(start, Simplifications(attempts).passes, attempts.fails, self.most)
        smallest = shrunk.smallest
        case = Case(planned(smallest, self.trial.setup.faults)[0], smallest.run)
        sizes = {name: [getattr(each.target, name, None) for each in (smallest, start)] for name in (STEPS, DATA)}
        smaller = {name: new for name, (new, old) in sizes.items() if new != old}
        why = "" if shrunk.proven else f"not proven minimal: {attempts.over}"
        minimal = msgspec.structs.replace(
            minimal, case=str(case), target=smaller, runs=attempts.runs, proven=shrunk.proven, why=why
        )
        return self._bundled(smallest, failure, minimal, number)

    def _with(self, target: Target) -> Trial:
        cell = self.trial.cell
        return self.trial_of(replace(cell, scenario=replace(cell.scenario, target=target)))

    def _bundled(
        self, smallest: Candidate, failure: Failure, minimal: Minimal, number: int
    ) -> tuple[Minimal, frozenset[str]]:
        """Keep *smallest* as a bundle, if it fails alone as well; return what came of it, and all that it breaks."""
        cell, results = self.trial.cell, self.trial.folder
        suffix = f"-{number + 1}" if number else ""
        folder = Path(bundle.FAILURES, cell.scenario.name, f"{cell.name}{suffix}")
        why = "as a scenario of its own it does not fail in the same way"
        try:
            proof = alone(self.trial, smallest, failure, folder, self.trial_of)
        except (HarnessError, ScenarioError) as error:
            proof, why = None, f"it cannot be written as a scenario of its own: {error}"
        except BaseException:
            shutil.rmtree(results / folder, ignore_errors=True)
            raise
        if proof is None:
            shutil.rmtree(results / folder, ignore_errors=True)
            why = "; ".join(filter(None, (minimal.why, why)))
            return msgspec.structs.replace(minimal, why=why), frozenset()
        finding = found(proof.run, failure.check)
        minimal = msgspec.structs.replace(
            minimal,
            case=str(proof.case),
            finding=finding,
            runs=minimal.runs + proof.runs,
            replay=proof.run.replay,
            bundle=str(folder),
        )
        title = f"{cell.strategy.label} x {cell.fault.label}: {failure.check}: {finding}"
        # Where the crash-free run was recorded to derive others from it, its journal is under the cell's own trial.
        journals = (results / each.reference.journal for each in (proof.trial, self.trial))
        seen = next(filter(Path.exists, journals))
        bundle.finish(results / folder, proof.said, proof.case, title, minimal, seen, alone=proof.planned)
        return minimal, judge.unexpected(proof.run)


def _different(runs: Sequence[RunResult]) -> Iterator[RunResult]:
    """Yield the first of those *runs* that have the same verdict and broke the same checks, if any."""
    seen = set[tuple[CellVerdict, frozenset[str]]]()
    for run in runs:
        kind = (run.verdict, judge.unexpected(run))
        if failures(run) and kind not in seen:
            seen.add(kind)
            yield run
