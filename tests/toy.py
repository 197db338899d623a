"""A toy target for tests through real processes: a run takes a tenth of a second.

`run` and `rerun` execute one run with a fault at a point; `scenario` makes a whole scenario for a `Runner`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import chaos
from chaos import campaign, results
from chaos.campaign import Cell, Runner
from chaos.checks import Terms
from chaos.events import Event
from chaos.events.seen import Exited, Reached
from chaos.explorers import Explorer
from chaos.explorers.fixed import Fixed
from chaos.faults import Fault
from chaos.journal import AnyEvent
from chaos.plan import Case, parse_plan
from chaos.record import Record
from chaos.results import CellResult, Landed, RunResult
from chaos.run import Setup, execute
from chaos.sandbox import Watch
from chaos.scenario import ExpectedFailure, FaultSpec, Limits, Scenario, StrategySpec
from chaos.stores import Store
from chaos.targets import Facts, InProcess, Launch, Strategy
from chaos.world import Answer, Message, Reply

GOAL = "Count to the end."
SEED = 7
STEPS = 3
HERE = Path(__file__).parent
PATH = [str(HERE), str(Path(chaos.__file__).parents[1])]
CHECKS = ("state", "files", "effects", "goal", "finishes", "corruption", "recovery")


@dataclass(frozen=True)
class Keeps(InProcess):
    """A log of all answers in the durable zone."""

    claims: ClassVar[frozenset[str]] = frozenset({"messages", "files"})
    store: ClassVar[str] = "jsonl"
    durable: ClassVar[bool] = True


@dataclass(frozen=True)
class Forgets(InProcess):
    """Nothing is kept."""

    claims: ClassVar[frozenset[str]] = frozenset()
    store: ClassVar[str] = ""
    durable: ClassVar[bool] = False


@dataclass(frozen=True)
class CountingBrain:
    """Says the number of the turn, by the conversation alone."""

    def reply(self, messages: Sequence[Message]) -> Reply:
        return Reply(f"answer {sum(message['role'] == 'assistant' for message in messages)}")

    def goal(self, messages: Sequence[Message]) -> str:
        return messages[0]["content"] or ""

    def serve(self, service: str, operation: str, payload: Mapping[str, Any]) -> Answer:
        return Answer(200, {"ok": True}, effect=True)


@dataclass(frozen=True)
class Toy:
    """An agent that is `toy_agent` and then *code*; *reads* is how another process reads its store."""

    code: str = "work()"
    steps: int = STEPS
    reads: str = "import json; print(json.dumps({'answers': load()}))"

    def strategy(self, name: str, options: Mapping[str, object]) -> Strategy:
        return Keeps() if name == "keeps" else Forgets()

    def prepare(self, assets: Path, seed: int) -> None:
        pass

    def launch(self, strategy: Strategy, seed: int, root: Path) -> Launch:
        return self._launch(strategy, self.code)

    def reload(self, strategy: Strategy, seed: int, root: Path) -> Launch:
        return self._launch(strategy, self.reads)

    def digest(self, state: bytes) -> str | None:
        return None

    def brain(self, seed: int) -> CountingBrain:
        return CountingBrain()

    def facts(self, seed: int) -> Facts:
        return Facts(goal=GOAL, deliverable=f"workspace/{self.steps - 1}.txt")

    @property
    def releases(self) -> Mapping[str, tuple[str, ...]]:
        return {"code": ()}

    def watch(self) -> Watch:
        return Watch(ports=(("TOY_PORT", 0),))

    def _launch(self, strategy: Strategy, code: str) -> Launch:
        keeps = "yes" if strategy.durable else "no"
        env = {"PYTHONPATH": ":".join(PATH), "TOY_STEPS": str(self.steps), "TOY_KEEPS": keeps}
        return Launch((sys.executable, "-S", "-c", f"from toy_agent import *\n{code}"), env)


KEEPS = StrategySpec("keeps", "keeps", Keeps())
FORGETS = StrategySpec("forgets", "forgets", Forgets())


@dataclass
class Ran:
    """One run and where its journal is."""

    record: Record
    setup: Setup
    plan: str
    journal: Path
    landed: tuple[Landed, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.landed = campaign.landings(self.record, parse_plan(self.plan), self.setup)

    @property
    def statuses(self) -> list[int]:
        """How each incarnation ended."""
        return [event.status for event in self.all(Exited)]

    @property
    def told(self) -> list[str]:
        """What the agent said with `say`."""
        return [event.key for event in self.all(Reached) if not event.key.startswith("step-")]

    def all(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.record.events if isinstance(event, kind)]

    def reached(self, phase: str, attempt: int | None = None) -> list[int]:
        """The steps that the agent announced in *phase*."""
        return [e.step for e in self.all(Reached) if e.phase == phase and attempt in (None, e.attempt)]


def setup(target: Toy, faults: Mapping[str, Fault] | None = None, strategy: Strategy | None = None,
          store: Store | None = None, **limits: Any) -> Setup:  # fmt: skip
    return Setup(
        target=target,
        strategy=strategy or Keeps(),
        seed=SEED,
        brain=target.brain(SEED),
        watch=target.watch(),
        limits=Limits(**{"deadline_seconds": 20.0, "backoff_limit": 2, **limits}),
        faults=faults or {},
        store=store,
    )


def run(folder: Path, code: str = "work()", plan: str = "no fault", faults: Mapping[str, Fault] | None = None, *,
        steps: int = STEPS, seed: int = SEED, **more: Any) -> Ran:  # fmt: skip
    """Run the toy with *code* once under *plan*; *faults* maps its labels, *more* goes to `setup`."""
    return execute_plan(folder, setup(Toy(code, steps), faults, **more), plan, seed)


def execute_plan(folder: Path, made: Setup, plan: str, seed: int = SEED) -> Ran:
    record = execute(made, parse_plan(plan), folder, random.Random(seed))
    return Ran(record, made, plan, folder / "journal.jsonl")


def spec(fault: Fault, at: Explorer | None = None, label: str = "", then: tuple[FaultSpec, ...] = ()) -> FaultSpec:
    kind = "".join(f"_{c.lower()}" if c.isupper() else c for c in type(fault).__name__).strip("_")
    return FaultSpec(label or kind, kind, fault, at or Fixed((1,), ("after_act",)), then)


def scenario(*faults: FaultSpec, target: Any = None, strategies: tuple[StrategySpec, ...] = (KEEPS,),
             expected: tuple[ExpectedFailure, ...] = (), **more: Any) -> Scenario:  # fmt: skip
    given: dict[str, Any] = {
        "path": Path("toy.chaos.yaml"), "name": "toy", "description": "", "tags": (), "target": target or Toy(),
        "strategies": strategies, "faults": faults, "checks": CHECKS, "terms": Terms(), "volatile": (),
        "expected": expected, "limits": Limits(backoff_limit=2, deadline_seconds=20.0), "runs": 1,
    }  # fmt: skip
    return Scenario(**{**given, **more})


def cells(made: Scenario) -> list[Cell]:
    return [Cell(made, strategy, fault) for strategy in made.strategies for fault in made.faults]


def replay(folder: Path, fault: Fault, plan: str, *, target: Toy | None = None) -> tuple[RunResult, CellResult]:
    """Judge one run of *plan*, against references and all, as `--chaos-case` does."""
    made = scenario(spec(fault), target=target)
    folder.mkdir(exist_ok=True)
    with closing(Runner(folder, "campaign", SEED, case=Case(parse_plan(plan)))) as runner:
        cell = runner.run_cell(cells(made)[0])
    (only,) = runs(folder)
    return only, cell


def runs(folder: Path) -> list[RunResult]:
    """The results of all runs so far."""
    return list(results._lines(folder / results.RUNS, RunResult))


def cell_results(folder: Path) -> list[CellResult]:
    return list(results._lines(folder / results.CELLS, CellResult))


def kinds(events: Sequence[AnyEvent]) -> list[str]:
    return [type(event).__name__ for event in events]
