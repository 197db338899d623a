"""The reference agent in real runs: one strategy, its crash-free run once, and any plan against it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from chaos import measure, registry
from chaos.checks import Terms
from chaos.events.seen import HostDid
from chaos.faults import Fault
from chaos.faults.evict import Evict
from chaos.faults.kill import Kill
from chaos.plan import parse_plan
from chaos.record import Record
from chaos.run import Setup, execute
from chaos.scenario import Limits
from chaos.targets.reference import Reference
from chaos.verdict import Outcome

SEED = 7
CHECKS = ("state", "files", "processes", "environment", "effects", "goal", "budget", "finishes", "corruption")


@dataclass(frozen=True)
class Ran:
    """One run, beside the crash-free one."""

    record: Record
    reference: Record
    target: Reference

    @property
    def rpo(self) -> int:
        """The steps that had to be done again."""
        return measure.rpo_steps(self.record)

    def broken(self) -> dict[str, str]:
        """Return what every check that is not passed has to say."""
        facts, found = self.target.facts(SEED), {}
        for name in CHECKS:
            verdict = registry.load("checks", name)().check(self.record, self.reference, Terms(), facts)
            if verdict.outcome is not Outcome.PASS:
                found[name] = verdict.finding
        return found

    def told(self, what: str) -> list[Mapping[str, object]]:
        """Return the figures of all that the strategy's half outside the sandbox said of *what*."""
        return [event.figures for event in self.record.events if isinstance(event, HostDid) and event.what == what]


@dataclass(frozen=True)
class ReferenceCell:
    """Runs of the strategy *name* with *options* on *target*, in *folder*."""

    folder: Path
    target: Reference
    name: str
    options: Mapping[str, object] = field(default_factory=dict)
    faults: Mapping[str, Fault] = field(default_factory=lambda: {"kill": Kill(), "evict": Evict(grace=0.1)})

    @cached_property
    def setup(self) -> Setup:
        strategy = self.target.strategy(self.name, self.options)
        store = registry.load("stores", strategy.store)() if strategy.store else None
        brain, watch = self.target.brain(SEED), self.target.watch()
        return Setup(self.target, strategy, SEED, brain, watch, Limits(), self.faults, store)

    @cached_property
    def reference(self) -> Record:
        """The crash-free run."""
        return self._execute("no fault")

    @property
    def whole(self) -> Ran:
        """The crash-free run, beside itself."""
        return Ran(self.reference, self.reference, self.target)

    def run(self, plan: str) -> Ran:
        """Run under *plan*, and see that every fault of it was injected."""
        ran = Ran(self._execute(plan), self.reference, self.target)
        assert len(ran.record.injections) == len(parse_plan(plan).faults)
        return ran

    def _execute(self, plan: str) -> Record:
        folder = self.folder / "run"
        shutil.rmtree(folder, ignore_errors=True)
        return execute(self.setup, parse_plan(plan), folder, random.Random(SEED))
