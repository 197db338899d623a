"""A campaign: reference runs, plans, runs and verdicts. The one module that knows all the stages.

cell = scenario x strategy x fault
reference run (twice, and they must agree) -> points -> plans -> runs -> checks -> verdict of the cell
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from chaos import judge, placement, results, seeds
from chaos.cell import Cell as Cell
from chaos.cell import chain_of, store_of
from chaos.errors import HarnessError
from chaos.explorers import Seeker, Tried
from chaos.explorers.combine import combine
from chaos.landing import landings as landings
from chaos.leftovers import sweep
from chaos.plan import STEP_PHASES, Case, Plan, Point
from chaos.pool import Pool
from chaos.record import Record
from chaos.reference import References
from chaos.results import CellResult, RunResult
from chaos.run import Setup, execute
from chaos.sandbox import Backend, backends
from chaos.trial import Trial
from chaos.verdict import CellVerdict, worst


class Runner:
    """Runs cells and appends what they give to the results in *folder*; journals go to *folder*/runs.

    Args:
        folder: the results folder.
        campaign: identifier of the campaign.
        seed: base seed of every scenario that has none itself; all other seeds are derived from it.
        runs: how many runs a cell has, instead of what its scenario says.
        case: the one run to replay, instead of what the scenario says.
        addresses: server to where the user says that there is one; the others are started when they are needed.
        warm: fork agents from a process that has their imports done, instead of starting new interpreters.
        backend: name of the kind of sandbox; "auto" for the first one in which the cell's faults can land.
        toxiproxy: address of a Toxiproxy server's API; "" for one of our own.
        no_skip: what this machine cannot run fails, instead of being skipped.
    """

    def __init__(
        self,
        folder: Path,
        campaign: str,
        seed: int,
        runs: int | None = None,
        case: Case | None = None,
        addresses: Mapping[str, str] | None = None,
        *,
        warm: bool = True,
        backend: str = backends.AUTO,
        toxiproxy: str = "",
        no_skip: bool = False,
    ) -> None:
        self.folder, self.campaign, self.seed, self.runs, self.case = folder, campaign, seed, runs, case
        self._backends, self._toxiproxy, self._no_skip = backends.candidates(backend), toxiproxy, no_skip
        self._pool, self._warm = Pool(addresses), warm
        self._references = References(folder)
        for each in self._backends:  # before the folders go that their containers have
            each.sweep()
        sweep()

    def close(self) -> None:
        """Stop the servers that were started, and remove what the back ends still have. May be called twice."""
        self._pool.close()
        for each in self._backends:
            each.sweep_own()

    def run_cell(self, cell: Cell) -> CellResult:
        """Run *cell*; what it gave has been appended to the results when this returns."""
        try:
            result = self._skipped(cell) or self._run_cell(cell)
        except Exception as error:  # a bug of ours must not make a cell vanish from the table
            why = f"{type(error).__name__}: {error}"
            results.append(self.folder, self._cell_result(cell, (), CellVerdict.HARNESS_ERROR, passed=False, why=why))
            raise
        results.append(self.folder, result)
        return result

    def lacking(self, cell: Cell) -> str:
        """Return what the machine lacks for *cell*; "" if nothing."""
        return placement.without(cell, self._pool) or self._placed(cell)[1]

    def unsuited(self, cell: Cell) -> str:
        """Return why *cell* makes no sense on any machine; "" if it does."""
        return placement.unsuited(cell, self.case)

    def _placed(self, cell: Cell) -> tuple[Backend, str]:
        return placement.placed(cell, self.case, self._backends)

    def once(self, cell: Cell, folder: Path) -> tuple[Setup, Plan, Record]:
        """Run *cell* once, without a reference and without judging: for its numbers. The journal is in *folder*.

        The faults must be placed at steps that are known without a reference.
        """
        setup, steps = self._setup(cell), range(cell.scenario.target.steps)
        points = [Point(step, phase) for step in steps for phase in STEP_PHASES]
        plans = combine(cell.fault, points, 1, seeds.rng(self._seed(cell), "plan"))
        if not plans:
            raise HarnessError(f"{cell.fault.label!r} has no place in a run of {len(steps)} steps")
        rng = seeds.rng(self._seed(cell), cell.scenario.name, cell.strategy.label, "once")
        return setup, plans[0], execute(setup, plans[0], folder, rng)

    def _skipped(self, cell: Cell) -> CellResult | None:
        if reason := self.unsuited(cell):
            return self._cell_result(cell, (), CellVerdict.NOT_EXERCISED, passed=True, skipped=reason)
        if reason := self.lacking(cell):
            demanded, why = self._no_skip, f"this machine cannot run it: {reason}"
            return self._cell_result(
                cell, (), CellVerdict.NOT_EXERCISED, passed=not demanded, why=why, skipped="" if demanded else reason
            )
        return None

    def _run_cell(self, cell: Cell) -> CellResult:
        scenario = cell.scenario
        try:
            setup = self._setup(cell)
            reference = self._references.of(cell.strategy.label, setup, scenario.checks, scenario.terms)
            if reference.unfit:
                return self._cell_result(cell, (), CellVerdict.UNKNOWN, passed=False, why=reference.unfit)
            runs = self._runs(
                cell, Trial(cell, setup, reference, self._seed(cell), self.campaign, self.folder, self._toxiproxy)
            )
        except HarnessError as error:
            return self._cell_result(cell, (), CellVerdict.HARNESS_ERROR, passed=False, why=str(error))
        if not runs:
            why = f"the reference run reached no point where {cell.fault.label!r} should hit"
            return self._cell_result(cell, (), CellVerdict.NOT_EXERCISED, passed=False, why=why)
        expectation = scenario.expectation(cell.strategy, cell.fault)
        judged = judge.cell_verdict(runs, expectation, strict=self.case is None)
        return self._cell_result(
            cell, runs, worst(run.verdict for run in runs), judged.passed, judged.expected, judged.why
        )

    def _seed(self, cell: Cell) -> int:
        """Return the base seed of *cell*: its scenario may have one of its own."""
        return self.seed if cell.scenario.seed is None else cell.scenario.seed

    def _setup(self, cell: Cell) -> Setup:
        scenario = cell.scenario
        seed = seeds.derive(self._seed(cell), "workload", scenario.target)
        watch = scenario.target.watch()
        return Setup(
            target=scenario.target,
            strategy=cell.strategy.strategy,
            seed=seed,
            brain=scenario.target.brain(seed),
            watch=replace(watch, volatile=(*watch.volatile, *scenario.volatile_files)),
            limits=scenario.limits,
            faults={spec.label: spec.fault for spec in chain_of(cell.fault)},
            store=store_of(cell.strategy),
            volatile=scenario.volatile_state,
            pool=self._pool,
            warm=self._warm,
            backend=self._placed(cell)[0],
            toxiproxy=self._toxiproxy,
            syscalls=placement.held(cell, self.case),
        )

    def _runs(self, cell: Cell, trial: Trial) -> tuple[RunResult, ...]:
        """Run what the explorer of *cell* plans; the one case instead, if there is one."""
        runs: list[RunResult] = []

        def attempt(case: Case) -> Tried:
            result = trial.run(case)
            results.append(self.folder, result)
            runs.append(result)
            return Tried(len(result.landed) == result.planned, judge.unexpected(result))

        if self.case is not None:
            known = {spec.label for spec in chain_of(cell.fault)}
            if unknown := {planned.fault for planned in self.case.plan.faults} - known:
                raise HarnessError(f"the case names {', '.join(sorted(unknown))}; this cell has {', '.join(known)}")
            attempt(self.case)
            return tuple(runs)
        # Without the strategy's name: all strategies are broken at the same places, so that they can be compared.
        rng = seeds.rng(self._seed(cell), cell.scenario.name, cell.fault.label, "plans")
        points, wanted = trial.reference.points, self.runs or cell.scenario.runs
        if isinstance(cell.fault.at, Seeker):
            cell.fault.at.seek(points, cell.fault, wanted, rng, lambda plan: attempt(Case(plan, len(runs))))
        else:
            for run, plan in enumerate(combine(cell.fault, points, wanted, rng)):
                attempt(Case(plan, run))
        return tuple(runs)

    def _cell_result(
        self,
        cell: Cell,
        runs: Sequence[RunResult],
        verdict: CellVerdict,
        passed: bool,
        expected: bool = False,
        why: str = "",
        skipped: str = "",
    ) -> CellResult:
        shown = next((run for run in runs if run.verdict is verdict), None)
        return CellResult(
            campaign=self.campaign,
            scenario=cell.scenario.name,
            strategy=cell.strategy.label,
            fault=cell.fault.label,
            order=cell.order,
            verdict=verdict,
            passed=passed,
            expected=expected,
            why=why,
            findings={name: shown.checks[name].finding for name in shown.broke} if shown else {},
            runs=len(runs),
            planned=sum(run.planned for run in runs),
            landed=sum(len(run.landed) for run in runs),
            skipped=skipped,
            replay=shown.replay if shown else "",
        )
