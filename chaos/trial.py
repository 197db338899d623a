"""A trial of one cell: one case of it is run and judged against the reference, as often as somebody asks."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from chaos import claims, judge, measure, seeds
from chaos.cell import Cell, taken
from chaos.errors import HarnessError
from chaos.events.seen import HostDid
from chaos.landing import landings, misses
from chaos.plan import Case
from chaos.record import Record
from chaos.reference import Reference
from chaos.results import RunResult
from chaos.run import Setup, execute
from chaos.sandbox.backends import ProcessBackend
from chaos.verdict import CellVerdict, Outcome


@dataclass(frozen=True)
class Trial:
    """What all cases of *cell* have in common.

    Args:
        seed: base seed of the cell; that of a run is derived from it.
        campaign: identifier of the campaign.
        folder: the results folder; journals go to *folder*/runs.
        toxiproxy: address of a Toxiproxy server's API, for the replay command; "" for one of our own.
    """

    cell: Cell
    setup: Setup
    reference: Reference
    seed: int
    campaign: str
    folder: Path
    toxiproxy: str = ""

    def run(self, case: Case) -> RunResult:
        """Return what became of *case*; what the harness could not do is a HARNESS_ERROR in it."""
        parts = (self.cell.scenario.name, self.cell.strategy.label, self.cell.fault.label, case.run)
        run_seed = seeds.derive(self.seed, *parts)
        folder = Path("runs", *map(str, parts))
        (self.folder / folder / "journal.jsonl").unlink(missing_ok=True)
        began = time.monotonic()
        try:
            record = execute(self.setup, case.plan, self.folder / folder, seeds.rng(run_seed, "faults"))
            result = self.judged(case, record)
        except HarnessError as error:
            if _interrupted(error):
                raise KeyboardInterrupt from error
            result = msgspec.structs.replace(self._blank(case), verdict=CellVerdict.HARNESS_ERROR, error=str(error))
        return msgspec.structs.replace(
            result,
            seed=run_seed,
            seconds=round(time.monotonic() - began, 3),
            journal=str(folder / "journal.jsonl"),
            reference=self.reference.journal,
        )

    def judged(self, case: Case, run: Record) -> RunResult:
        """Return what the record *run* of *case* amounts to."""
        scenario, setup, reference = self.cell.scenario, self.setup, self.reference.record
        landed = landings(run, case.plan, setup)
        verdicts = judge.judge(run, reference, scenario.checks, scenario.terms, scenario.target.facts(setup.seed))
        return msgspec.structs.replace(
            self._blank(case),
            landed=landed,
            missed=misses(run, case.plan, setup),
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
            outside={event.what: event.figures for event in run.events if isinstance(event, HostDid)},
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
