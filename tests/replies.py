"""The reference agent in real runs whose replies go wrong: correct behaviour, and the proof that the fault landed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from chaos import landing, registry
from chaos.checks import Terms
from chaos.events.seen import Asked, Effected, Exited, Spoiled
from chaos.faults import Fault
from chaos.faults.kill import Kill
from chaos.plan import parse_plan
from chaos.record import Record
from chaos.results import Landed
from chaos.targets.reference import Reference
from chaos.verdict import CellVerdict, Outcome
from tests import toy
from tests.cells import SEED, ReferenceCell

STEPS = 16
MAIL, MIDDLE, PAYMENT, LAST = 2, 9, 12, 15
"""Steps of the script at that length; the mail's service knows no idempotency keys, the payment's does."""


_REFERENCES: dict[tuple[str, Reference], Record] = {}


@dataclass
class Wrong:
    """One run, and what came of it."""

    record: Record
    landed: tuple[Landed, ...]
    broken: dict[str, str] = field(default_factory=dict)

    def all(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.record.events if isinstance(event, kind)]

    @property
    def asked(self) -> list[Asked]:
        return self.all(Asked)

    @property
    def spoiled(self) -> list[Spoiled]:
        return self.all(Spoiled)

    @property
    def statuses(self) -> list[int]:
        """How the incarnations ended."""
        return [event.status for event in self.all(Exited)]

    def did(self, service: str) -> list[bool]:
        """Return for each effect of *service* whether it happened, in order; not where the key was known."""
        return [not event.deduplicated for event in self.all(Effected) if event.service == service]


def run(folder: Path, fault: Fault, plan: str, strategy: str = "chat_history", **options: Any) -> Wrong:
    """Run the agent with *options* under *plan*, which has *fault* as "it", and "kill"; judge it by every check."""
    target = Reference(**{"steps": STEPS, **options})
    cell = ReferenceCell(folder, target, strategy, faults={"it": fault, "kill": Kill()})
    if known := _REFERENCES.get((strategy, target)):
        vars(cell)["reference"] = known  # the crash-free run is the same for every fault
    made = cell.run(plan)
    _REFERENCES[strategy, target] = made.reference
    facts, broken = target.facts(SEED), {}
    for name in registry.names("checks"):
        verdict = registry.load("checks", name)().check(made.record, made.reference, Terms(), facts)
        if verdict.outcome is not Outcome.PASS:
            broken[name] = verdict.finding
    return Wrong(made.record, landing.landings(made.record, parse_plan(plan), cell.setup), broken)


def not_exercised(folder: Path, fault: Fault, point: str = "finished") -> None:
    """See that a fault which nobody runs into is no result: *point* is where a toy agent asks nothing more."""
    only, cell = toy.replay(folder, fault, f"{toy.spec(fault).kind}@{point}")
    assert only.landed == ()
    assert only.verdict is cell.verdict is CellVerdict.NOT_EXERCISED
    assert not cell.passed


def takes_none(kind: type[Any]) -> None:
    """See that a fault of no requests is refused: it would always have hit them all."""
    from chaos.errors import ScenarioError

    with pytest.raises(ScenarioError, match="requests must be at least 1"):
        kind(requests=0)
