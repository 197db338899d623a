"""A trial of one cell: one case of it is run and judged against the reference, as often as somebody asks."""

from __future__ import annotations

import os
import random
import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from chaos import claims, codes, judge, measure, seeds
from chaos.budget import UNLIMITED, Budget
from chaos.cell import Cell, taken
from chaos.errors import HarnessError
from chaos.events.seen import HostDid
from chaos.landing import landings, misses
from chaos.plan import Case, Plan
from chaos.record import Record
from chaos.reference import Reference
from chaos.results import DERIVED, EQUAL, KILLED, RunResult
from chaos.run import Setup, execute
from chaos.sandbox.backends import ProcessBackend
from chaos.verdict import CellVerdict, Outcome

if TYPE_CHECKING:
    from chaos.capture.deriver import Deriver


class Made(NamedTuple):
    """A run that was made: its record, where its journal is, and how (see `RunResult.how` and `like`)."""

    record: Record
    journal: Path
    how: str = KILLED
    like: str = ""


@dataclass(frozen=True)
class Trial:
    """What all cases of *cell* have in common.

    Args:
        seed: base seed of the cell; that of a run is derived from it.
        campaign: identifier of the campaign.
        folder: the results folder; journals go to *folder*/runs.
        toxiproxy: address of a Toxiproxy server's API, for the replay command; "" for one of our own.
        deriver: the recorded run that cases are derived from where that is possible; *reference* has its record.
        verify: make each derived run from its start as well, and have both agree.
        prune: run equal crash states once.
        aside: where the journal of the next run goes, relative to *folder*, if it is none of the cell's own runs.
        budget: of time; Spent instead of a run when it is used up.
    """

    cell: Cell
    setup: Setup
    reference: Reference
    seed: int
    campaign: str
    folder: Path
    toxiproxy: str = ""
    deriver: Deriver | None = None
    verify: bool = False
    prune: bool = True
    aside: Path | None = None
    budget: Budget = UNLIMITED

    def run(self, case: Case, *, may_miss: bool = False) -> RunResult:
        """Return what became of *case*; what the harness could not do is a HARNESS_ERROR in it.

        Args:
            may_miss: a seeker asks: the run is judged by the faults that hit, what found no point is *unreached*.
        """
        self.budget.check()
        began = time.monotonic()
        try:
            made = self._made(case)
            result = self._told(case, made, self.judged(case, made.record, may_miss=may_miss))
            if self.verify and made.how != KILLED:
                real = self._real(case, result, may_miss=may_miss)
                result = real if real.error else result
        except HarnessError as error:
            result = self._failed(case, error)
        return msgspec.structs.replace(result, seconds=_since(began))

    def derives(self, plan: Plan) -> bool:
        """Tell whether a run of *plan* is derived."""
        return self.deriver is not None and not self.deriver.obstacle(plan)

    def rng(self, purpose: str) -> random.Random:
        """Return what is drawn for *purpose* in this cell."""
        cell = self.cell
        return seeds.rng(self.seed, cell.scenario.name, cell.strategy.label, cell.fault.label, purpose)

    def confirm(self, derived: Mapping[Case, RunResult]) -> Iterator[RunResult]:
        """Kill the agent for real where runs were *derived*, and yield those results: a contradiction is our error.

        Where the agent does not become equal to the recorded run again, only some of them are (see `Deriver.kill`). One
        that contradicts may do so for the deaths before it in the same run: it is made by itself before that is said.
        """
        if self.deriver is None or not derived:
            return
        began = time.monotonic()
        chained = {case.plan: case for case in derived if self.deriver.chains(case.plan)}
        alone = [case for case in derived if not self.deriver.chains(case.plan)]
        try:
            first = min(case.run for case in derived)  # other parts of the cell have others
            folder = self.folder / self._folder(first).parent / f"real-from-{first}"
            for killed in self.deriver.kill(tuple(chained), self.rng("real"), folder):
                case = chained.pop(killed.plan)
                made = Made(killed.record, killed.journal, KILLED, derived[case].like)
                real = _agreed(derived[case], self._told(case, made, self.judged(case, killed.record)))
                if real.error:
                    alone.append(case)
                else:
                    yield msgspec.structs.replace(real, seconds=_since(began))
                    began = time.monotonic()
        except HarnessError as error:
            if _interrupted(error):
                raise KeyboardInterrupt from error
            alone += chained.values()
        for case in alone:
            began = time.monotonic()
            try:
                real = self._real(case, derived[case])
            except HarnessError as error:
                real = self._failed(case, error)
            yield msgspec.structs.replace(real, seconds=_since(began))

    def _made(self, case: Case) -> Made:
        """Make the run of *case*: derived if that is possible, else from its start."""
        folder = self.folder / self._folder(case.run)
        rng = seeds.rng(self._run_seed(case), "faults")
        if self.deriver is not None and not self.deriver.obstacle(case.plan):
            derived = self.deriver.derive(case.plan, rng, folder, prune=self.prune)
            how, like = (DERIVED, "") if derived.like == case.plan else (EQUAL, str(derived.like))
            return Made(derived.record, derived.journal, how, like)
        (folder / "journal.jsonl").unlink(missing_ok=True)
        return Made(execute(self.setup, case.plan, folder, rng), folder / "journal.jsonl")

    def _real(self, case: Case, derived: RunResult, *, may_miss: bool = False) -> RunResult:
        """Return the result of *case* made from its start: a harness error if *derived* contradicts it."""
        folder = self._folder(case.run) / "real"
        journal = self.folder / folder / "journal.jsonl"
        journal.unlink(missing_ok=True)
        rng = seeds.rng(self._run_seed(case), "faults")
        record = execute(self.setup, case.plan, self.folder / folder, rng)
        made = Made(record, journal, like=derived.like)
        return _agreed(derived, self._told(case, made, self.judged(case, record, may_miss=may_miss)))

    def _failed(self, case: Case, error: HarnessError) -> RunResult:
        """Return the result of *case*, which could not be run."""
        if _interrupted(error):
            raise KeyboardInterrupt from error
        return msgspec.structs.replace(self._blank(case), verdict=CellVerdict.HARNESS_ERROR, error=codes.told(error))

    def _told(self, case: Case, made: Made, result: RunResult) -> RunResult:
        """Return *result* with how the run was *made*."""
        return msgspec.structs.replace(
            result,
            how=made.how,
            like=made.like,
            seed=self._run_seed(case),
            journal=os.path.relpath(made.journal, self.folder),
            reference=self.reference.journal,
        )

    def _folder(self, run: int) -> Path:
        """Return where the journal of the *run*-th run goes, relative to the results."""
        cell = self.cell
        return self.aside or Path("runs", cell.scenario.name, cell.strategy.label, cell.fault.label, str(run))

    def _run_seed(self, case: Case) -> int:
        cell = self.cell
        return seeds.derive(self.seed, cell.scenario.name, cell.strategy.label, cell.fault.label, case.run)

    def judged(self, case: Case, run: Record, *, may_miss: bool = False) -> RunResult:
        """Return what the record *run* of *case* amounts to."""
        scenario, setup, reference = self.cell.scenario, self.setup, self.reference.record
        planned = case.plan
        if may_miss:
            case = Case(Plan(planned.faults[: len(run.injections)]), case.run)
        landed = landings(run, case.plan, setup)
        verdicts = judge.judge(run, reference, scenario.checks, scenario.terms, scenario.target.facts(setup.seed))
        return msgspec.structs.replace(
            self._blank(case),
            plan=str(planned),
            landed=landed,
            missed=misses(run, case.plan, setup),
            unreached=tuple(map(str, planned.faults[len(case.plan.faults) :])),
            checks=verdicts,
            verdict=judge.run_verdict(verdicts, run, len(case.plan.faults), len(landed)),
            broke=tuple(name for name, verdict in verdicts.items() if verdict.outcome is Outcome.FAIL),
            claims=claims.judge_claims(setup.strategy.claims, run, reference, verdicts, scenario.terms),
            attempts=run.attempts,
            steps=measure.steps(run),
            rpo_steps=measure.rpo_steps(run),
            rto_seconds=measure.rto(run),
            tokens=measure.tokens(run),
            storage=measure.storage(run),
            outside={event.what: event.figures for event in run.all(HostDid)},
        )

    def _blank(self, case: Case) -> RunResult:
        cell = self.cell
        expectation = cell.scenario.expectation(cell.strategy, cell.fault)
        return RunResult(
            campaign=self.campaign,
            scenario=cell.scenario.name,
            strategy=cell.strategy.label,
            fault=cell.fault.label,
            survival=taken(cell.fault, case.plan),
            run=case.run,
            seed=0,
            backend=self.setup.backend.name,
            plan=str(case.plan),
            planned=len(case.plan.faults),
            landed=(),
            checks={},
            verdict=CellVerdict.UNKNOWN,
            expected=tuple(sorted({name for e in expectation for name in (*e.breaks, *e.may_break)})),
            because="; ".join(e.because for e in expectation),
            volatile=self.setup.volatile,
            replay=self.replay_command(case),
        )

    def replay_command(self, case: Case) -> str:
        """Return the command that runs exactly *case* again."""
        cell = self.cell
        words = ["pytest", "--chaos", _shown(cell.scenario.path), "--chaos-seed", str(self.seed)]
        words += ["--chaos-strategy", cell.strategy.label, "--chaos-fault", cell.fault.label]
        if (backend := self.setup.backend.name) != ProcessBackend.name:
            words += ["--chaos-backend", backend]
        if self.toxiproxy:
            words += ["--chaos-toxiproxy", self.toxiproxy]
        return shlex.join([*words, "--chaos-case", str(case)])


def _since(began: float) -> float:
    return round(time.monotonic() - began, 3)


def _agreed(derived: RunResult, real: RunResult) -> RunResult:
    """Return *real*, made a harness error if *derived* says otherwise of the same case."""
    one, other = _gist(derived), _gist(real)
    if one == other:
        return real
    why = f"derived from a captured crash state this run is {one}, killed for real it is {other}"
    return msgspec.structs.replace(real, verdict=CellVerdict.HARNESS_ERROR, error=f"{why}: use --chaos-speed real")


def _gist(run: RunResult) -> str:
    """Return what two runs of one case must agree on, as a phrase."""
    blind = [name for name, verdict in run.checks.items() if verdict.outcome is Outcome.UNKNOWN]
    parts = {"breaks": run.broke, "cannot judge": blind, "misses": run.missed}
    return "; ".join([str(run.verdict), *(f"{what} {', '.join(some)}" for what, some in parts.items() if some)])


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
