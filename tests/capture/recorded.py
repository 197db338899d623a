"""Targets that are recorded, what is derived from them, and the same made from its start: what has to agree."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from chaos import judge, measure, registry
from chaos.campaign import Cell, Runner
from chaos.capture.deriver import Derived, Deriver
from chaos.checks import Terms
from chaos.faults import Fault
from chaos.faults.kill import Kill
from chaos.landing import landings
from chaos.plan import STEP_PHASES, Plan, Point, parse_plan
from chaos.record import Record
from chaos.results import CellResult, RunResult
from chaos.route import Speed
from chaos.run import Setup, execute
from chaos.scenario import FaultSpec, Limits, Scenario, StrategySpec
from chaos.targets import Launch, Strategy
from chaos.targets.planted import NONE, Loop, Planted
from chaos.targets.reference import Reference
from chaos.verdict import Outcome
from tests import toy
from tests.capture import warm_toy

ALL = tuple(registry.names("checks"))


WARM = ("http.client", "email.parser", "hashlib", "json", "subprocess", "urllib.parse", "chaos.probe")


@dataclass(frozen=True)
class Toy(toy.Toy):
    """The toy whose incarnations are forked: these tests have some hundreds of them."""

    def _launch(self, strategy: Strategy, code: str) -> Launch:
        cold = super()._launch(strategy, code)
        env = {**cold.env, "PYTHONPATH": str(Path(__file__).parents[2]), warm_toy.CODE: code}
        return Launch((sys.executable, "-m", warm_toy.__name__), env, WARM)


class Told(NamedTuple):
    """What is said of a run, and must not depend on how it was made."""

    checks: Mapping[str, Outcome]
    landed: tuple[tuple[object, ...], ...]
    attempts: int
    steps: int
    rpo: int
    tokens: object


@dataclass
class Recorded:
    """A recorded run of *setup* in *folder*, judged by *checks*."""

    folder: Path
    setup: Setup
    checks: Sequence[str] = ALL

    def __post_init__(self) -> None:
        self.deriver = Deriver(self.setup, self.folder / "recorded", random.Random(toy.SEED))
        self.made = 0

    @property
    def points(self) -> list[Point]:
        """The points of steps, in the order of the run."""
        return [point for point in self.deriver.moments if point.phase in STEP_PHASES]

    def plans(self, fault: str = "kill", *, of: Sequence[Point] = ()) -> list[Plan]:
        """Return one plan for each point."""
        return [parse_plan(f"{fault}@{point}") for point in of or self.points]

    def derive(self, plan: Plan | str, *, prune: bool = False) -> Derived:
        return self.deriver.derive(self._plan(plan), random.Random(toy.SEED), self._fresh(), prune=prune)

    def execute(self, plan: Plan | str, seed: int = toy.SEED) -> Record:
        """Make the run from its start."""
        return execute(self.setup, self._plan(plan), self._fresh(), random.Random(seed))

    def told(self, run: Record, plan: Plan | str) -> Told:
        verdicts = judge.judge(run, self.deriver.record, self.checks, Terms(), self.setup.target.facts(self.setup.seed))
        landed = tuple(
            (one.fault, one.at, one.how, tuple(sorted((k, v) for k, v in one.evidence.items() if "pid" not in k)))
            for one in landings(run, self._plan(plan), self.setup)
        )
        checks = {name: verdict.outcome for name, verdict in verdicts.items()}
        return Told(checks, landed, run.attempts, measure.steps(run), measure.rpo_steps(run), measure.tokens(run))

    def _plan(self, plan: Plan | str) -> Plan:
        return parse_plan(plan) if isinstance(plan, str) else plan

    def _fresh(self) -> Path:
        self.made += 1
        return self.folder / f"run-{self.made}"


@contextmanager
def recorded(folder: Path, setup: Setup, checks: Sequence[str] = ALL) -> Iterator[Recorded]:
    """Record *setup*, and undo that."""
    made = Recorded(folder, setup, checks)
    try:
        yield made
    finally:
        made.deriver.close()


def setup_of(target: Any, strategy: str, faults: Mapping[str, Fault] | None = None, **limits: Any) -> Setup:
    """Return the setup of runs of *strategy* on *target*."""
    made = target.strategy(strategy, {})
    store = registry.load("stores", made.store)() if made.store else None
    seed, faults = toy.SEED, faults or {"kill": Kill()}
    return Setup(target, made, seed, target.brain(seed), target.watch(), Limits(**limits), faults, store)


def toying(*faults: FaultSpec, target: Any = None, **more: Any) -> Scenario:
    """Return the scenario of a toy."""
    return toy.scenario(*faults, target=target or Toy(), **more)


def planted(fault: Any, bug: str = NONE, steps: int = 16) -> Scenario:
    """Return the scenario of the agent with *bug*."""
    return toy.scenario(
        fault, target=Planted(bug, steps), strategies=(StrategySpec("loop", "loop", Loop()),), checks=ALL,
        limits=Limits(),
    )  # fmt: skip


def reference(fault: Any, strategy: str, steps: int = 12) -> Scenario:
    """Return the scenario of the reference agent with *strategy*."""
    target = Reference(steps=steps)
    spec = StrategySpec(strategy, strategy, target.strategy(strategy, {}))
    return toy.scenario(fault, target=target, strategies=(spec,), checks=ALL, limits=Limits())


@dataclass(frozen=True)
class Ran:
    """A cell that was run."""

    cell: CellResult
    runs: list[RunResult]

    @property
    def verdicts(self) -> list[tuple[object, ...]]:
        """What must be the same however it was made."""
        return [(run.plan, run.verdict, run.broke, run.missed) for run in self.runs]

    @property
    def how(self) -> dict[str, str]:
        return {run.plan: run.how for run in self.runs}

    @property
    def errors(self) -> list[str]:
        return [*filter(None, (run.error for run in self.runs)), *([] if self.runs else [self.cell.why])]


def run_cell(folder: Path, cell: Cell, speed: Speed, **options: Any) -> Ran:
    """Run *cell* in a folder of its own, with a runner of its own."""
    folder.mkdir(parents=True)
    runner = Runner(folder, "campaign", toy.SEED, speed=speed, **options)
    try:
        result = runner.run_cell(cell)
    finally:
        runner.close()
    return Ran(result, sorted(toy.runs(folder), key=lambda run: run.run))


def run_scenario(folder: Path, scenario: Scenario, speed: Speed, **options: Any) -> Ran:
    """Run the only cell of *scenario*."""
    (cell,) = toy.cells(scenario)
    return run_cell(folder, cell, speed, **options)
