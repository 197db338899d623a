"""How the runs of a cell are made: each from its start, or derived from one recorded run."""

from __future__ import annotations

import os
import random
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from chaos import seeds
from chaos.cell import Cell, seeker_of
from chaos.errors import HarnessError
from chaos.plan import Case, parse_plan
from chaos.reference import key_of
from chaos.results import KILLED, RunResult
from chaos.rig import Setup
from chaos.sandbox.backends import ProcessBackend
from chaos.trial import Trial

if TYPE_CHECKING:
    from chaos.capture.deriver import Deriver

DERIVE_FROM = 24
"""Runs of a cell from which on they are derived if they can be: recording costs as much as some of them."""

SHARE = 20
"""One of so many derived deaths is a real one as well, and they must agree: 5 %."""


class Speed(StrEnum):
    """How runs are made."""

    REAL = "real"  # each from its start
    AUTO = "auto"  # derived where a cell has many
    FAST = "fast"  # derived wherever that is possible


class Router:
    """Has the recorded run that the runs of the present cell are derived from: one at a time, it takes up disk.

    Args:
        folder: the results folder; the recorded runs' journals are beside those of the references.
    """

    def __init__(self, folder: Path, speed: Speed) -> None:
        self._folder, self._speed = folder, speed
        self._open: tuple[object, Deriver] | None = None
        self._place = ExitStack()
        weakref.finalize(self, self._place.close)  # for who forgets to close it

    def of(self, cell: Cell, setup: Setup, runs: int) -> tuple[Deriver | None, str]:
        """Return what the runs of *cell*, about so many, are derived from; None, and why there is nothing.

        The recorded run before is closed if it was another's.
        """
        if reason := self._obstacle(cell, setup, runs):
            return None, reason
        from chaos.capture.deriver import Deriver
        from chaos.capture.moments import Tied

        key = key_of(setup)
        if self._open is None or self._open[0] != key:
            self.close()
            name = f"{cell.strategy.label}-{seeds.derive(0, *key):08x}"
            # Parallel workers record the same run each, and each derives from its own.
            folder = self._folder / "runs" / "reference" / name / f"recorded-{os.urandom(4).hex()}"
            try:
                made = Deriver(setup, folder, seeds.rng(setup.seed, "reference"))
            except Tied as reason:
                return None, str(reason)
            self._place.callback(made.close)
            self._open = key, made
        self._open[1].serve(setup)
        return self._open[1], ""

    def _obstacle(self, cell: Cell, setup: Setup, runs: int) -> str:
        """Return why nothing is to be recorded for *cell*; "" if something is."""
        if self._speed is Speed.REAL:
            return "every run is made from its start (--chaos-speed real)"
        if self._speed is Speed.AUTO and runs < DERIVE_FROM and not seeker_of(cell.fault):
            return f"too few runs to record one for them ({runs}; from {DERIVE_FROM} on)"
        if not cell.fault.fault.dies:
            return f"{cell.fault.label} does more than to end the agent: there is no crash state to begin with"
        if not isinstance(setup.backend, ProcessBackend):
            return f"only the process back end captures crash states, not {setup.backend.name}"
        missing = setup.backend.able().process_tree
        return f"a crash state is that of a tree that dies at once ({missing})" if missing else ""

    def close(self) -> None:
        """Undo the recorded run; may be called twice."""
        self._open = None
        self._place.close()


def run_all(trial: Trial, cases: Sequence[Case], keep: Callable[[RunResult], None]) -> None:
    """Run *cases* and *keep* what became of each; of those that are derived, some are killed for real as well."""
    chosen = sampled([case for case in cases if trial.derives(case.plan)], trial.rng("sample"))
    waiting: dict[int, tuple[Case, RunResult]] = {}
    try:
        for case in cases:
            result = trial.run(case)
            if case in chosen and result.how != KILLED and not result.error:
                waiting[case.run] = case, result  # its result is that of the real one
            else:
                keep(result)
        for real in trial.confirm(dict(waiting.values())):
            del waiting[real.run]
            keep(real)
    finally:  # what is finished is kept, whatever ends the others
        for _, result in waiting.values():
            keep(result)


def confirm_some(trial: Trial, runs: Sequence[RunResult]) -> None:
    """Kill the agent for real in some of the derived *runs* of a seeker; HarnessError for a contradiction."""
    derived = {
        Case(parse_plan(run.plan), run.run): run
        for run in runs
        if run.how != KILLED and not run.unreached and not run.error
    }
    chosen = sampled(tuple(derived), trial.rng("sample"))
    for real in trial.confirm({case: run for case, run in derived.items() if case in chosen}):
        if real.error:
            raise HarnessError(real.error)


def sampled(cases: Sequence[Case], rng: random.Random) -> frozenset[Case]:
    """Return one of each `SHARE` of *cases*, which are in the order of the run: those that are killed for real too.

    Of each share one of the first half: so there is room for the agent to recover before the next.
    """
    shares = [cases[begin : begin + SHARE] for begin in range(0, len(cases), SHARE)]
    return frozenset(rng.choice(share[: max(1, len(share) // 2)]) for share in shares)
