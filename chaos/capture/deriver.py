"""One recorded run of a strategy, and runs that are derived from it: a captured crash state, then real incarnations.

SIGKILL takes the memory of a process and leaves the page cache: the files at an instant are what a kill at that instant
leaves. So a run whose first fault is such a death needs not be run up to there again. It is made of

    the recorded run's events up to the point     as it was captured there
    what really happened from the death on        the supervisor drives real incarnations, in the same place
    the recorded run's events from a step on      where the agent had become equal to the recorded one
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from chaos import leftovers
from chaos.capture.chain import Chain, Killed
from chaos.capture.classes import died_at, stands_for
from chaos.capture.convergence import Convergence
from chaos.capture.moments import Moment, Recorder, Tied
from chaos.capture.seeing import Sights
from chaos.capture.shelf import Shelf
from chaos.capture.standing import Captured
from chaos.errors import HarnessError
from chaos.faults import FIRST_HOST
from chaos.gate import Gate
from chaos.journal import AnyEvent, Journal
from chaos.leftovers import surely
from chaos.outfit import Outfit, together
from chaos.plan import COUNTED, Plan, Point
from chaos.record import Record
from chaos.rig import Rig, Setup
from chaos.run import fitted, hosted, rigged
from chaos.sandbox import Survival
from chaos.splice import spliced
from chaos.supervisor import Supervisor

_UNDRAWN = (Survival.PROCESS, Survival.CONTAINER, Survival.NODE)
"""What a fault takes away that chooses nothing by chance: equal crash states lead to equal runs."""

ZONES = ("durable", "workspace", "tmp")

PASSES = 3
"""Runs that are killed for real, at most: an agent that never becomes equal again is killed once in each."""


class Derived(NamedTuple):
    """A derived run.

    *record* is all of it, *middle* what really happened, *rest* where the recorded run goes on. *like* is the plan that
    was really run: another one than this run's where both begin with equal crash states. *journal* is of that one.
    """

    record: Record
    moment: Moment
    middle: tuple[AnyEvent, ...]
    rest: int | None
    like: Plan
    journal: Path


class Known(NamedTuple):
    """What a crash state led to: a run of *plan*, without the record, which is as long as the run."""

    plan: Plan
    moment: Moment
    middle: tuple[AnyEvent, ...]
    rest: int | None
    journal: Path


class Real(NamedTuple):
    """A run that was killed for real: its plan, its record, and the journal that it is part of."""

    plan: Plan
    record: Record
    journal: Path


class Deriver:
    """A recorded run of *setup* and the place where it was made; `close` undoes it.

    Args:
        folder: for the recorded run's journal.
        rng: of the recorded run.
    """

    def __init__(self, setup: Setup, folder: Path, rng: random.Random) -> None:
        self.setup = setup
        self.journal = folder / "journal.jsonl"
        self._stack = ExitStack()
        self._classes: dict[tuple[object, ...], Known] = {}
        with ExitStack() as begun:
            self._root = leftovers.folder("captures-")
            begun.callback(surely, partial(leftovers.remove, self._root))
            self._record(folder, rng, begun)
            self._stack = begun.pop_all()

    def _record(self, folder: Path, rng: random.Random, stack: ExitStack) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.journal.unlink(missing_ok=True)
        journal = Journal(self.journal)
        stack.callback(journal.close)
        rig = rigged(self.setup, Outfit(), journal, rng, stack)
        if rig.host is not None and rig.host.tied:
            raise Tied(rig.host.tied)
        zones = rig.sandbox.zones
        self._shelf = Shelf({name: zones.root / name for name in ZONES}, self._root)
        stack.callback(self._shelf.close)
        self._sights = Sights(self._shelf, rig.watch)
        recorder = Recorder(self._shelf, rig.world, journal, rig.leases.running, rig.leases.parts, self._sights.here)
        self._origin = recorder.taken_before()
        self._rig = rig = replace(fitted(rig, self.setup, Plan(), Outfit()), onlooker=recorder)
        supervisor = Supervisor(self.setup, Plan(), rig)
        stack.callback(surely, supervisor.undo)
        supervisor.supervise()
        if rig.host is not None:
            rig.host.close()
        self.record = Record(tuple(journal.events), self.setup.volatile)
        self.moments: Mapping[Point, Moment] = recorder.moments

    def serve(self, setup: Setup) -> None:
        """Derive runs of *setup* from now on, which differs from that of the recorded run in its faults only."""
        if setup.faults != self.setup.faults:
            self._classes.clear()  # a run is told to be like one of its own cell
        self.setup = setup

    def obstacle(self, plan: Plan) -> str:
        """Return why *plan* cannot be derived from the recorded run; "" if it can."""
        if not plan.faults:
            return "nothing is to happen"
        first = plan.faults[0]
        outfit = together(self.setup.faults[planned.fault].outfit for planned in plan.faults)
        if first.point.recovery or first.point.step is None or first.point not in self.moments:
            return f"the recorded run has no such point as {first.point}"
        if not self.setup.faults[first.fault].dies:
            return f"{first.fault} does more than to end the agent"
        return "" if outfit == Outfit() else "its faults need a run that is fitted out for them from the start"

    def derive(self, plan: Plan, rng: random.Random, folder: Path, *, prune: bool = True) -> Derived:
        """Run *plan* from where its first fault hits, unless an equal crash state was run; see `obstacle`.

        Args:
            folder: for `journal.jsonl`, if anything runs.
            prune: use what an equal crash state led to.

        Raises:
            HarnessError: the harness could not do its part; the place is fit for other runs.
        """
        moment = self.moments[plan.faults[0].point]
        key = self._class(plan, moment) if prune else None
        known = self._classes.get(key) if key else None
        if known is None or not stands_for(known.moment, known.rest, moment):
            derived = self._through(plan, moment, rng, folder)
            if key is not None:
                self._classes[key] = Known(plan, moment, derived.middle, derived.rest, derived.journal)
            return derived
        middle = died_at(plan.faults[0].point, moment, known.moment, known.middle)
        record = spliced(self.record, moment.events, middle, known.rest, self.setup.volatile)
        return Derived(record, moment, middle, known.rest, known.plan, known.journal)

    def _class(self, plan: Plan, moment: Moment) -> tuple[object, ...] | None:
        """Return what tells the crash states apart that *plan* may lead to; None if a run of it is like no other."""
        first = self.setup.faults[plan.faults[0].fault]
        if len(plan.faults) > 1 or first.survival not in _UNDRAWN:
            return None
        return first, moment.digests

    def _through(self, plan: Plan, moment: Moment, rng: random.Random, folder: Path) -> Derived:
        derived = self._derive(plan, moment, rng, folder, early=True)
        if derived is None:  # equal to all that was looked at, and what is stored says otherwise: see it through
            derived = self._derive(plan, moment, rng, folder, early=False)
        if derived is None:
            raise HarnessError(f"the run of {plan} was to go to its end, and did not")
        return derived

    def _derive(self, plan: Plan, moment: Moment, rng: random.Random, folder: Path, *, early: bool) -> Derived | None:
        folder.mkdir(parents=True, exist_ok=True)
        place = folder / "journal.jsonl"
        place.unlink(missing_ok=True)
        state = rng.getstate()
        with ExitStack() as stack:
            journal = Journal(place, begun=(self.journal, self.record.events[: moment.events]))
            stack.callback(journal.close)
            rig = self._again(moment, journal, rng, stack)
            watch = Convergence(self.record, self.moments, self._shelf, rig.world, journal, self._sights.here)
            rig = replace(rig, onlooker=watch if early else None)
            outfit = together(self.setup.faults[planned.fault].outfit for planned in plan.faults)
            supervisor = Supervisor(self.setup, plan, fitted(rig, self.setup, plan, outfit))
            stack.callback(surely, supervisor.undo)
            supervisor.supervise()
            rest = None
            if supervisor.stopped:
                assert watch.at is not None
                stored = watch.same_store and not rig.leases.parts  # what is on servers is read back
                if not stored and not supervisor.stores_the_same(watch.at.state):
                    rng.setstate(state)
                    return None
                rest = watch.at.events
                journal.go_on(rest)
            middle = tuple(journal.own)
        record = spliced(self.record, moment.events, middle, rest, self.setup.volatile)
        return Derived(record, moment, middle, rest, plan, place)

    def chains(self, plan: Plan) -> bool:
        """Tell whether `kill` can have *plan* among others: one death, which draws nothing by chance, at a step.

        What is counted in each incarnation, as system calls are, has other numbers after a death.
        """
        if len(plan.faults) != 1 or plan.faults[0].point.phase in COUNTED:
            return False
        return self.setup.faults[plan.faults[0].fault].survival in _UNDRAWN

    def kill(self, plans: Sequence[Plan], rng: random.Random, folder: Path) -> Iterator[Real]:
        """Kill the agent for real where *plans* say, in few runs from the very start; yield what became of each.

        Args:
            plans: that can be derived and chained. Where the agent does not become equal to the recorded run again,
                each takes a run, and after `PASSES` of them the others are left out.
        """
        waiting = sorted(((plan, self.moments[plan.faults[0].point]) for plan in plans), key=lambda one: one[1].events)
        for number in range(PASSES):
            if not waiting:
                return
            done = self._kill(waiting, rng, folder / str(number))
            for place, killed in enumerate(done):
                events = self.moments[killed.plan.faults[0].point].events
                record = spliced(self.record, events, killed.middle, killed.rest, self.setup.volatile)
                yield Real(killed.plan, record, self._written(killed, events, folder / f"{number}-{place}"))
            hit = {killed.plan for killed in done}
            waiting = [one for one in waiting if one[0] not in hit]

    def _written(self, killed: Killed, events: int, folder: Path) -> Path:
        """Write the journal of a run as if *killed* had been the only death in it, and return where it is."""
        folder.mkdir(parents=True, exist_ok=True)
        place = folder / "journal.jsonl"
        place.unlink(missing_ok=True)
        journal = Journal(place, begun=(self.journal, self.record.events[:events]))
        for event in killed.middle:
            journal.put(event)
        if killed.rest is not None:
            journal.attempt = killed.middle[-1].attempt
            journal.go_on(killed.rest)
        journal.close()
        return place

    def _kill(self, plans: Sequence[tuple[Plan, Moment]], rng: random.Random, folder: Path) -> list[Killed]:
        folder.mkdir(parents=True, exist_ok=True)
        place = folder / "journal.jsonl"
        place.unlink(missing_ok=True)
        with ExitStack() as stack:
            journal = Journal(place)
            stack.callback(journal.close)
            rig = hosted(self._put_back(self._origin, journal, rng, stack), self.setup)
            rig = fitted(rig, self.setup, Plan(), Outfit())
            supervisor = Supervisor(self.setup, Plan(), rig)
            stack.callback(surely, supervisor.undo)
            watch = Convergence(self.record, self.moments, self._shelf, rig.world, journal, self._sights.here)
            chain = Chain(plans, watch, journal, supervisor)
            supervisor.look(chain)
            supervisor.supervise()
            return chain.killed()

    def _again(self, moment: Moment, journal: Journal, rng: random.Random, stack: ExitStack) -> Rig:
        """Put everything back as it was at *moment*, where the agent stands, and return what the run goes on with."""
        rig = self._put_back(moment, journal, rng, stack)
        sandbox = Captured(rig.sandbox, moment.pid, moment.written_bytes, self._sights.observe)
        return hosted(replace(rig, sandbox=sandbox, captured=True), self.setup)

    def _put_back(self, moment: Moment, journal: Journal, rng: random.Random, stack: ExitStack) -> Rig:
        """Put everything back as it was at *moment*, in a sandbox where nothing runs."""
        first, setup = self._rig, self.setup
        self._shelf.put_back(moment.capture)
        for name, kept in moment.kept.items():
            first.leases.running[name].put_back(first.leases.parts[name], kept)
        first.world.recall(moment.memory, journal)
        sandbox = setup.backend.beside(first.sandbox, None, setup.limits.memory_bytes, FIRST_HOST)
        stack.callback(surely, sandbox.close)
        gate = Gate()
        stack.callback(gate.close)
        return replace(
            first, journal=journal, sandbox=sandbox, gate=gate, rng=rng, stack=stack, host=None, onlooker=None
        )

    def close(self) -> None:
        """Undo everything; may be called twice."""
        self._stack.close()
