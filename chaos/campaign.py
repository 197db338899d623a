"""A campaign: reference runs, plans, runs and verdicts. The one module that knows all the stages.

cell = scenario x strategy x fault
reference run (twice, and they must agree) -> points -> plans -> runs -> checks -> verdict of the cell
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from chaos import claims, judge, measure, placement, results, seeds
from chaos.cell import Cell as Cell
from chaos.cell import chain_of, store_of, taken
from chaos.errors import HarnessError
from chaos.events.seen import HostDid
from chaos.explorers.combine import combine
from chaos.landing import landings as landings
from chaos.landing import misses
from chaos.leftovers import sweep
from chaos.plan import STEP_PHASES, Case, Plan, Point
from chaos.pool import Pool
from chaos.record import Record
from chaos.reference import Reference, References
from chaos.results import CellResult, RunResult
from chaos.run import Setup, execute
from chaos.sandbox import Backend, backends
from chaos.sandbox.backends import ProcessBackend
from chaos.verdict import CellVerdict, Outcome, worst


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
            cases = self._cases(cell, reference)
        except HarnessError as error:
            return self._cell_result(cell, (), CellVerdict.HARNESS_ERROR, passed=False, why=str(error))
        runs = tuple(self._run(cell, setup, reference, case) for case in cases)
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

    def _cases(self, cell: Cell, reference: Reference) -> Sequence[Case]:
        if self.case is not None:
            known = {spec.label for spec in chain_of(cell.fault)}
            if unknown := {planned.fault for planned in self.case.plan.faults} - known:
                raise HarnessError(f"the case names {', '.join(sorted(unknown))}; this cell has {', '.join(known)}")
            return [self.case]
        # Without the strategy's name: all strategies are broken at the same places, so that they can be compared.
        rng = seeds.rng(self._seed(cell), cell.scenario.name, cell.fault.label, "plans")
        plans = combine(cell.fault, reference.points, self.runs or cell.scenario.runs, rng)
        return [Case(plan, run) for run, plan in enumerate(plans)]

    def _run(self, cell: Cell, setup: Setup, reference: Reference, case: Case) -> RunResult:
        parts = (cell.scenario.name, cell.strategy.label, cell.fault.label, case.run)
        run_seed = seeds.derive(self._seed(cell), *parts)
        folder = Path("runs", *map(str, parts))
        (self.folder / folder / "journal.jsonl").unlink(missing_ok=True)
        began = time.monotonic()
        try:
            record = execute(setup, case.plan, self.folder / folder, seeds.rng(run_seed, "faults"))
            result = self._judged(cell, setup, reference, case, record)
        except HarnessError as error:
            if _interrupted(error):
                raise KeyboardInterrupt from error
            result = msgspec.structs.replace(
                self._blank(cell, case), verdict=CellVerdict.HARNESS_ERROR, error=str(error)
            )
        result = msgspec.structs.replace(
            result,
            seed=run_seed,
            seconds=round(time.monotonic() - began, 3),
            journal=str(folder / "journal.jsonl"),
            reference=reference.journal,
        )
        results.append(self.folder, result)
        return result

    def _judged(self, cell: Cell, setup: Setup, reference: Reference, case: Case, run: Record) -> RunResult:
        scenario = cell.scenario
        landed = landings(run, case.plan, setup)
        facts = scenario.target.facts(setup.seed)
        verdicts = judge.judge(run, reference.record, scenario.checks, scenario.terms, facts)
        return msgspec.structs.replace(
            self._blank(cell, case),
            landed=landed,
            missed=misses(run, case.plan, setup),
            checks=verdicts,
            verdict=judge.run_verdict(verdicts, run, len(case.plan.faults), len(landed)),
            broke=tuple(name for name, verdict in verdicts.items() if verdict.outcome is Outcome.FAIL),
            claims=claims.judge_claims(setup.strategy.claims, run, reference.record, verdicts, scenario.terms),
            attempts=run.attempts,
            steps=measure.steps(run),
            rpo_steps=measure.rpo_steps(run),
            rto_seconds=measure.rto(run),
            tokens=measure.tokens(run),
            storage=measure.storage(run),
            outside={event.what: event.figures for event in run.events if isinstance(event, HostDid)},
        )

    def _blank(self, cell: Cell, case: Case) -> RunResult:
        expectation = cell.scenario.expectation(cell.strategy, cell.fault)
        return RunResult(
            campaign=self.campaign,
            scenario=cell.scenario.name,
            strategy=cell.strategy.label,
            fault=cell.fault.label,
            survival=taken(cell.fault, case.plan),
            run=case.run,
            seed=0,
            backend=self._placed(cell)[0].name,
            plan=str(case.plan),
            planned=len(case.plan.faults),
            landed=(),
            checks={},
            verdict=CellVerdict.UNKNOWN,
            expected=tuple(sorted({name for e in expectation for name in (*e.breaks, *e.may_break)})),
            because="; ".join(e.because for e in expectation),
            replay=self.replay_command(cell, case),
        )

    def replay_command(self, cell: Cell, case: Case) -> str:
        """Return the command that runs exactly *case* of *cell* again."""
        words = ["pytest", "--chaos", _shown(cell.scenario.path), "--chaos-seed", str(self._seed(cell))]
        words += ["--chaos-strategy", cell.strategy.label, "--chaos-fault", cell.fault.label]
        if (backend := self._placed(cell)[0].name) != ProcessBackend.name:
            words += ["--chaos-backend", backend]
        if self._toxiproxy:
            words += ["--chaos-toxiproxy", self._toxiproxy]
        return shlex.join([*words, "--chaos-case", str(case)])

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


def _interrupted(error: BaseException | None) -> bool:
    """Tell whether *error* was raised while an interrupt was being dealt with: a failing clean-up must not hide it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _shown(path: Path) -> str:
    """Return *path* as a user would type it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
