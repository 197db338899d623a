"""The smallest case as a scenario of its own, run once more: what is kept is what has been seen to fail alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from chaos import seeds
from chaos.cell import Cell
from chaos.errors import HarnessError
from chaos.explorers.combine import combine
from chaos.plan import Case
from chaos.results import RunResult
from chaos.scenario.loader import load
from chaos.shrink import bundle
from chaos.shrink.attempts import REFERENCE_RUNS, Failure
from chaos.shrink.candidate import Candidate
from chaos.shrink.document import document, plan_of
from chaos.trial import Trial

SEEDS = 3
"""Base seeds that are tried: the first is the campaign's. Where chance decides, run 0 may need another one."""


class Alone(NamedTuple):
    """The scenario *said*, whose one *case* failed in *run*; *runs* were made to find that out."""

    said: Mapping[str, JsonValue]
    case: Case
    run: RunResult
    trial: Trial
    runs: int

    @property
    def planned(self) -> bool:
        """Whether the scenario plans just this case by itself."""
        plans = combine(self.trial.cell.fault, self.trial.reference.points, 1, self.trial.rng("plans"))
        return plans == (self.case.plan,)


def alone(
    trial: Trial, smallest: Candidate, failure: Failure, folder: Path, trial_of: Callable[[Cell], Trial]
) -> Alone | None:
    """Begin the bundle *folder* of *smallest* with a scenario that fails in the same way; None if none does.

    Args:
        trial: of the cell in which *failure* was found.
        folder: in the results; the run's journal goes there.
        trial_of: makes the trial of another cell, its reference runs included.

    Raises:
        HarnessError, ScenarioError: it cannot be written as a scenario of its own.
    """
    for again in range(SEEDS):
        seed = seeds.derive(trial.seed, "bundle", again) if again else trial.seed
        said = document(trial.cell, smallest, seed)
        path = bundle.begin(trial.folder / folder, said)
        own = replace(_read(path, smallest, trial.cell, trial_of), aside=folder)
        case = Case(plan_of(smallest))
        run = own.run(case)
        if failure.is_of(run):
            return Alone(said, case, run, own, 1 + again * (1 + REFERENCE_RUNS))
    return None


def _read(path: Path, smallest: Candidate, cell: Cell, trial_of: Callable[[Cell], Trial]) -> Trial:
    """Return the trial of the one cell of the scenario in the file *path*."""
    scenario = load(path)
    if (scenario.target, scenario.strategies[0].strategy) != (smallest.target, cell.strategy.strategy):
        raise HarnessError("its target or its strategy reads as another one")
    trial = trial_of(Cell(scenario, scenario.strategies[0], scenario.faults[0], cell.order))
    if trial.reference.unfit:
        raise HarnessError(trial.reference.unfit)
    return trial
