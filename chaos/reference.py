"""The crash-free runs that everything is compared with, and whether they are fit to compare with."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from chaos import judge, seeds
from chaos.checks import Terms
from chaos.events.seen import Called, Operated, Reached
from chaos.journal import AnyEvent
from chaos.plan import CHECKPOINT_WRITE, COUNTED, OPERATIONS, STEP_PHASES, Plan, Point
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
        """Every step and phase that the run reached, and everything that was held and counted, once, in order."""
        return tuple(dict.fromkeys(chain.from_iterable(map(_points, self.record.events))))

    def has_no_place_for(self, label: str) -> str:
        """Return that nothing of the run is a place for the fault *label*, and what would be one."""
        why = f"the reference run reached no point where {label!r} should hit"
        if self.record.points:
            return why
        at = "at: {operation: model_call, n: every}"
        return f"{why}: the agent announces no steps; place it at what it does, as `{at}`"


def _points(event: AnyEvent) -> Iterator[Point]:
    """Yield the points that a fault can be planned for at *event*."""
    if isinstance(event, Called | Operated):
        yield Point(event.number, event.phase)
    if isinstance(event, Called) and event.checkpoint_write:
        yield Point(event.checkpoint_write, CHECKPOINT_WRITE)
    if isinstance(event, Reached) and event.phase in STEP_PHASES:
        yield Point(event.step, event.phase)


class References:
    """Makes crash-free runs when they are first asked for; journals go to *folder*/runs/reference.

    All cells of one target, strategy, limits and back end share a reference. It runs twice: what differs between two
    equal runs cannot be blamed on a fault.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[object, tuple[Record, Record, str]] = {}

    def of(
        self, label: str, setup: Setup, checks: Sequence[str], terms: Terms, recorded: tuple[Record, Path] | None = None
    ) -> Reference:
        """Return the reference of *setup*, whose strategy is called *label*.

        Args:
            checks, terms: what the runs will be judged by: a reference that breaks a check by itself is unfit.
            recorded: a crash-free run that is there already, with its journal: it is the first of the two.
        """
        key = key_of(setup)
        name = f"runs/reference/{label}-{seeds.derive(0, *key):08x}"
        if recorded is not None:
            second = self._made[key][1] if key in self._made else self._crash_free(setup, self._folder / name / "1")
            self._made[key] = recorded[0], second, os.path.relpath(recorded[1], self._folder)
        elif key not in self._made:
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


def key_of(setup: Setup) -> tuple[object, ...]:
    """Return what all setups have in common that share a crash-free run."""
    held = tuple(sorted(setup.syscalls | setup.operations))
    return setup.target, setup.strategy, setup.seed, setup.watch, setup.volatile, setup.limits, setup.backend, held


def _calls_differ(first: Record, second: Record) -> str:
    """Return where what was held in two runs parts; "" if it is the same, in the same folders and at the same doors."""
    for phase in COUNTED:
        pair = [list(_held(run, phase)) for run in (first, second)]
        for number, (left, right) in enumerate(zip_longest(*pair), start=1):
            if left is None or right is None or _place(left) != _place(right):
                here, there = (_told(call) if call else "none" for call in (left, right))
                return f"{phase} {number}: {here} in one, {there} in the other"
    return ""


def _held(run: Record, phase: str) -> Iterator[Called | Operated]:
    """Yield what was held as a point of the kind *phase*."""
    for event in run.events:
        durable = isinstance(event, Called) and event.checkpoint_write and phase == CHECKPOINT_WRITE
        if isinstance(event, Called | Operated) and (event.phase == phase or durable):
            yield event


def _told(call: Called | Operated) -> str:
    return f"{call.name} on {call.path}" if isinstance(call, Called) else call.path


def _place(call: Called | Operated) -> tuple[str, ...]:
    """Return what is the same in equal runs: names of files may be random, or made from what is in them.

    What is asked with may differ too where the scenario says so; `judge.disagreements` knows that.
    """
    if isinstance(call, Operated):
        return (call.path,)
    return call.name, *(os.path.dirname(path) for path in call.path.split(" -> "))


def _unfit(setup: Setup, first: Record, second: Record, checks: Sequence[str], terms: Terms) -> str:
    """Return why the reference runs are no measure: one broke a check by itself, or the two differ."""
    alone = judge.judge(first, first, checks, terms, setup.target.facts(setup.seed))
    for name, verdict in alone.items():
        if verdict.outcome is Outcome.FAIL:
            return f"the crash-free run breaks {name} by itself: {verdict.finding}"
    for name, verdict in alone.items():
        if verdict.outcome is not Outcome.PASS:
            return f"{name} cannot judge the crash-free run: {verdict.finding}"
    if parted := _calls_differ(first, second):
        what = "requests" if parted.split()[0] in OPERATIONS else "system calls"
        return f"two crash-free runs make other {what} ({parted}): a number is no place here; give steps"
    if differ := judge.disagreements(first, second):
        return f"two crash-free runs differ ({'; '.join(differ)}); declare what may differ in expect.volatile"
    return ""
