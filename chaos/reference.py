"""The crash-free runs that everything is compared with, and whether they are fit to compare with."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos import judge, seeds
from chaos.checks import Terms
from chaos.journal import Reached
from chaos.plan import STEP_PHASES, Plan, Point
from chaos.record import Record
from chaos.run import Setup, execute
from chaos.verdict import Outcome


@dataclass(frozen=True)
class Reference:
    """The crash-free run of a strategy, and what makes it unfit to compare with ("" if nothing)."""

    record: Record
    journal: str  # relative to the results folder
    unfit: str

    @property
    def points(self) -> tuple[Point, ...]:
        """Every step and phase that the run reached, once, in order."""
        reached = (event for event in self.record.events if isinstance(event, Reached))
        return tuple(dict.fromkeys(Point(e.step, e.phase) for e in reached if e.phase in STEP_PHASES))


class References:
    """Makes crash-free runs when they are first asked for; journals go to *folder*/runs/reference.

    All cells of one target, strategy and limits share a reference. It runs twice: what differs between two equal
    runs cannot be blamed on a fault.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[object, tuple[Record, Record, str]] = {}

    def of(self, label: str, setup: Setup, checks: Sequence[str], terms: Terms) -> Reference:
        """Return the reference of *setup*, whose strategy is called *label*.

        Args:
            checks, terms: what the runs will be judged by: a reference that breaks a check by itself is unfit.
        """
        key = (setup.target, setup.strategy, setup.seed, setup.watch, setup.volatile, setup.limits)
        if key not in self._made:
            name = f"runs/reference/{label}-{seeds.derive(0, *key):08x}"
            first, second = (self._crash_free(setup, self._folder / name / str(turn)) for turn in range(2))
            self._made[key] = first, second, f"{name}/0/journal.jsonl"
        first, second, journal = self._made[key]
        return Reference(first, journal, _unfit(setup, first, second, checks, terms))

    def _crash_free(self, setup: Setup, folder: Path) -> Record:
        """Run without a fault; other workers may do the same, so the journal is put in its place when it is whole."""
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as own:
            record = execute(setup, Plan(), Path(own), seeds.rng(setup.seed, "reference"))
            Path(own, "journal.jsonl").replace(folder / "journal.jsonl")
        return record


def _unfit(setup: Setup, first: Record, second: Record, checks: Sequence[str], terms: Terms) -> str:
    """Return why the reference runs are no measure: one broke a check by itself, or the two differ."""
    alone = judge.judge(first, first, checks, terms, setup.target.facts(setup.seed))
    for name, verdict in alone.items():
        if verdict.outcome is not Outcome.PASS:
            return f"the crash-free run breaks {name} by itself: {verdict.finding}"
    if differ := judge.disagreements(first, second):
        return f"two crash-free runs differ ({'; '.join(differ)}); declare what may differ in expect.volatile"
    return ""
