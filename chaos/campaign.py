"""A campaign: reference runs, plans, runs and verdicts. The one module that knows all the stages.

cell = scenario x strategy x fault
reference run (twice, and they must agree) -> points -> plans -> runs -> checks -> verdict of the cell
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos import codes, judge, placement, results, seeds
from chaos.baseline import Baseline
from chaos.budget import UNLIMITED, Budget, Spent
from chaos.cell import Cell as Cell
from chaos.cell import chain_of, seeker_of, store_of
from chaos.determinism import repeated
from chaos.errors import HarnessError, ScenarioError
from chaos.examples import Examples
from chaos.explorers import Covered
from chaos.explorers.combine import combine
from chaos.explorers.repeat import Repeat
from chaos.landing import landings as landings
from chaos.leftovers import sweep
from chaos.parts import estimate, fingerprint
from chaos.plan import STEP_PHASES, Case, Plan, Point
from chaos.pool import Pool
from chaos.record import Record
from chaos.reference import Reference, References
from chaos.results import CellResult, Expects, RunResult
from chaos.route import Router, Speed, confirm_some, run_all
from chaos.run import Setup, execute
from chaos.sandbox import Backend, backends
from chaos.seeking import Seeking
from chaos.shrink.failures import Shrinker
from chaos.trial import Trial
from chaos.variants import Variants
from chaos.verdict import CellVerdict, worst

if TYPE_CHECKING:
    from chaos.capture.deriver import Deriver


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
        speed: whether runs are derived from captured crash states.
        verify: make each of those from its start as well, and have both agree.
        prune: run equal crash states once.
        shrink: runs spent on making one failure as small as it gets at most; 0: none.
        budget: of time; what has not begun when it is used up is not judged.
        baseline: the failures that are known.
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
        speed: Speed = Speed.AUTO,
        verify: bool = False,
        prune: bool = True,
        shrink: int = 0,
        budget: Budget = UNLIMITED,
        baseline: Baseline | None = None,
    ) -> None:
        self.folder, self.campaign, self.seed, self.runs, self.case = folder, campaign, seed, runs, case
        self._backends, self._toxiproxy, self._no_skip = backends.candidates(backend), toxiproxy, no_skip
        self._pool, self._warm = Pool(addresses), warm
        self._shrinker = Shrinker(self._trial_of, shrink, partial(results.append, folder))
        self._references, self._router, self._verify = References(folder), Router(folder, speed), verify
        self._prune, self._budget, self._baseline = prune, budget, baseline
        self.ran: tuple[RunResult, ...] = ()  # the runs of the cell before
        for each in self._backends:  # before the folders go that their containers have
            each.sweep()
        sweep()

    def close(self) -> None:
        """Stop the servers that were started, and remove what the back ends still have. May be called twice."""
        self._router.close()
        self._pool.close()
        for each in self._backends:
            each.sweep_own()

    def run_cell(self, cell: Cell) -> CellResult:
        """Run *cell*; what it gave has been appended to the results when this returns.

        A cell that the budget did not suffice for has no result there, and comes back as skipped, with the reason.
        """
        self.ran = ()
        try:
            self._budget.check()
            result = self._skipped(cell) or self._run_cell(cell)
        except Spent as spent:
            done = f"after {len(self.ran)} of about {self._about(cell)} runs" if self.ran else "before it began"
            return self._cell_result(
                cell, (), CellVerdict.NOT_EXERCISED, passed=False, skipped=f"not judged: {spent} {done}"
            )
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
            deriver, why_real = self._router.of(cell, setup, self._about(cell))
            recorded = (deriver.record, deriver.journal) if deriver else None
            reference = self._references.of(cell.strategy.label, setup, scenario.checks, scenario.terms, recorded)
            if reference.unfit:
                return self._cell_result(cell, (), CellVerdict.UNKNOWN, passed=False, why=reference.unfit)
            plans = self._plans(cell, reference.points)
            trial = replace(self._trial(cell, setup, reference, deriver), budget=self._budget)
            runs, covered, cut = self._runs(cell, trial, plans)
            self.ran = runs
        except HarnessError as error:
            return self._cell_result(cell, (), CellVerdict.HARNESS_ERROR, passed=False, why=codes.told(error))
        if cut and not runs:
            raise cut
        if not runs and plans:
            why = f"none of the {len(plans)} runs is in {cell.part}"
            return self._cell_result(cell, (), CellVerdict.NOT_EXERCISED, passed=True, why=why, plans=plans)
        if not runs:
            why = covered.gap or reference.has_no_place_for(cell.fault.label)
            return self._cell_result(cell, (), CellVerdict.NOT_EXERCISED, passed=False, why=why)
        expectation = scenario.expectation(cell.strategy, cell.fault)
        decide = partial(judge.cell_verdict, runs, strict=not cut and self.case is None and cell.part.of == 1)
        judged = decide(expectation)
        if cut and judged.passed:
            raise cut
        verdict = worst(run.verdict for run in runs)
        if covered.gap and judged.passed:
            verdict, judged = CellVerdict.NOT_EXERCISED, judged._replace(passed=False, expected=False)
        why = "; ".join(filter(None, (judged.why, covered.told, covered.gap, str(cut or ""))))
        result = self._cell_result(
            cell, runs, verdict, judged.passed, judged.expected, why, plans=plans, real_because=why_real
        )
        if self._baseline and not covered.gap:
            result = self._baseline.judged(result, runs, lambda known: decide([*expectation, *known]))
        if cut and result.known:
            raise cut
        if result.known or self._budget.spent:
            return result
        return self._shrinker.shrunk(replace(trial, budget=UNLIMITED), runs, result)

    def _trial(self, cell: Cell, setup: Setup, reference: Reference, deriver: Deriver | None) -> Trial:
        return Trial(
            cell,
            setup,
            reference,
            self._seed(cell),
            self.campaign,
            self.folder,
            self._toxiproxy,
            deriver,
            self._verify,
            self._prune,
        )

    def _trial_of(self, cell: Cell) -> Trial:
        """Return the trial of *cell*, whose runs are all made from their starts, with a reference of its own."""
        setup, scenario = self._setup(cell), cell.scenario
        reference = self._references.of(cell.strategy.label, setup, scenario.checks, scenario.terms)
        return self._trial(cell, setup, reference, None)

    def _about(self, cell: Cell) -> int:
        """Return about how many runs *cell* has."""
        if self.case is not None:
            return 1
        wanted = self.runs or cell.scenario.runs
        if seeker_of(cell.fault):
            return wanted
        return estimate(cell.fault, cell.scenario.target.steps, wanted) // cell.part.of

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
            faults=Variants({spec.label: spec.fault for spec in chain_of(cell.fault)}),
            store=store_of(cell.strategy),
            volatile=scenario.volatile_state,
            pool=self._pool,
            warm=self._warm,
            backend=self._placed(cell)[0],
            toxiproxy=self._toxiproxy,
            syscalls=placement.held(cell, self.case),
            operations=placement.operations(cell, self.case),
        )

    def _plans(self, cell: Cell, points: Sequence[Point]) -> tuple[Plan, ...]:
        """Return what the explorer of *cell*, all parts of it, plans for *points*; none of one case or for a seeker."""
        if self.case is not None or seeker_of(cell.fault):
            return ()
        return combine(cell.fault, points, self.runs or cell.scenario.runs, self._rng(cell))

    def _rng(self, cell: Cell) -> random.Random:
        """Return what plans are drawn from: without the strategy's name, so that all are broken at the same places."""
        return seeds.rng(self._seed(cell), cell.scenario.name, cell.fault.label, "plans")

    def _runs(
        self, cell: Cell, trial: Trial, plans: Sequence[Plan]
    ) -> tuple[tuple[RunResult, ...], Covered, Spent | None]:
        """Run those of *plans* that are in the part of *cell*, or what its seeker plans, or the one case.

        What was run by then comes back, and what was covered; and Spent if the budget did not suffice for the rest.
        """
        runs: list[RunResult] = []

        def keep(result: RunResult) -> None:
            results.append(self.folder, result)
            runs.append(result)

        cases = [self.case] if self.case else [Case(plans[run], run) for run in cell.part.share(len(plans))]
        if self.case is not None:
            self._known(self.case, trial)
        covered, cut = Covered(""), None
        try:
            if isinstance(cell.fault.at, Repeat):
                for case in cases:
                    keep(repeated(trial, case, cell.fault.at.times))
            elif self.case is not None:
                keep(trial.run(self.case))
            elif seeker := seeker_of(cell.fault):
                wanted, examples = self.runs or cell.scenario.runs, Examples(self.folder, cell)
                covered = Seeking(trial, seeker, wanted, self._rng(cell), examples, keep).go()
                confirm_some(trial, runs)
            else:
                run_all(trial, cases, keep)
        except Spent as spent:
            cut = spent
        return tuple(runs), covered, cut

    def _known(self, case: Case, trial: Trial) -> None:
        """Raise HarnessError if *case* names a fault that is none of the cell's, nor a variant of one."""
        for planned in case.plan.faults:
            try:
                Variants(trial.setup.faults).fault(planned.fault)
            except ScenarioError as error:
                raise HarnessError(f"the case names what this cell has not: {error}") from None

    def _cell_result(
        self,
        cell: Cell,
        runs: Sequence[RunResult],
        verdict: CellVerdict,
        passed: bool,
        expected: bool = False,
        why: str = "",
        skipped: str = "",
        plans: Sequence[Plan] = (),
        real_because: str = "",
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
            real_because=real_because,
            **(self._of_part(cell, plans) if cell.part.of > 1 else {}),
        )

    def _of_part(self, cell: Cell, plans: Sequence[Plan]) -> dict[str, Any]:
        """Return what a part's result says besides, so that the whole can be judged when all of them are there."""
        expectation = cell.scenario.expectation(cell.strategy, cell.fault)
        return {
            "part": cell.part.number,
            "parts": cell.part.of,
            "plans": fingerprint(plans),
            "expects": tuple(Expects(one.breaks, one.may_break, one.because) for one in expectation),
        }
