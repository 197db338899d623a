"""The crash-free runs that everything is compared with, and whether they are fit to compare with."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from chaos import judge, seeds
from chaos.checks import Terms
from chaos.events.seen import Called, Reached
from chaos.journal import AnyEvent
from chaos.plan import STEP_PHASES, SYSCALLS, Plan, Point
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
        """Every step and phase that the run reached, and every system call that was held, once, in order."""
        return tuple(dict.fromkeys(filter(None, map(_point, self.record.events))))


def _point(event: AnyEvent) -> Point | None:
    """Return the point that a fault can be planned for at *event*."""
    if isinstance(event, Called):
        return Point(event.number, event.phase)
    return Point(event.step, event.phase) if isinstance(event, Reached) and event.phase in STEP_PHASES else None


class References:
    """Makes crash-free runs when they are first asked for; journals go to *folder*/runs/reference.

    All cells of one target, strategy, limits and back end share a reference. It runs twice: what differs between two
    equal runs cannot be blamed on a fault.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[object, tuple[Record, Record, str]] = {}

    def of(self, label: str, setup: Setup, checks: Sequence[str], terms: Terms) -> Reference:
        """Return the reference of *setup*, whose strategy is called *label*.

        Args:
            checks, terms: what the runs will be judged by: a reference that breaks a check by itself is unfit.
        """
        held = tuple(sorted(setup.syscalls))
        key = (setup.target, setup.strategy, setup.seed, setup.watch, setup.volatile, setup.limits, setup.backend, held)
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


def _calls_differ(first: Record, second: Record) -> str:
    """Return where the held system calls of two runs part; "" if they are the same calls in the same folders."""
    one, other = ([event for event in run.events if isinstance(event, Called)] for run in (first, second))
    for phase in SYSCALLS:
        pair = ([call for call in calls if call.phase == phase] for calls in (one, other))
        for number, (left, right) in enumerate(zip_longest(*pair), start=1):
            if left is None or right is None or _place(left) != _place(right):
                here, there = (f"{call.name} on {call.path}" if call else "none" for call in (left, right))
                return f"{phase} {number}: {here} in one, {there} in the other"
    return ""


def _place(call: Called) -> tuple[str, ...]:
    """Return what is the same in equal runs: names of files may be random, or made from what is in them."""
    return call.name, *(os.path.dirname(path) for path in call.path.split(" -> "))


def _unfit(setup: Setup, first: Record, second: Record, checks: Sequence[str], terms: Terms) -> str:
    """Return why the reference runs are no measure: one broke a check by itself, or the two differ."""
    alone = judge.judge(first, first, checks, terms, setup.target.facts(setup.seed))
    for name, verdict in alone.items():
        if verdict.outcome is not Outcome.PASS:
            return f"the crash-free run breaks {name} by itself: {verdict.finding}"
    if parted := _calls_differ(first, second):
        return f"two crash-free runs make other system calls ({parted}): a number is no place here; give steps"
    if differ := judge.disagreements(first, second):
        return f"two crash-free runs differ ({'; '.join(differ)}); declare what may differ in expect.volatile"
    return ""
