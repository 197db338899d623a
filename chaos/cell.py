"""A cell: one field of the matrix, and what follows from it alone."""

from __future__ import annotations

from dataclasses import dataclass

from chaos import registry
from chaos.plan import Plan
from chaos.sandbox import Survival
from chaos.scenario import FaultSpec, Scenario, StrategySpec
from chaos.stores import Store


@dataclass(frozen=True)
class Cell:
    """One field of the matrix; *order* is its place in the campaign."""

    scenario: Scenario
    strategy: StrategySpec
    fault: FaultSpec
    order: int = 0

    @property
    def name(self) -> str:
        return f"{self.strategy.label}-{self.fault.label}"


def store_of(strategy: StrategySpec) -> Store | None:
    """Return the stored deltas of *strategy*, as faults see them; None if it stores none."""
    name = strategy.strategy.store
    if not name:
        return None
    store: Store = registry.load("stores", name)()
    return store


def chain_of(spec: FaultSpec) -> tuple[FaultSpec, ...]:
    """Return *spec* and all that follow it in a plan."""
    return (spec, *(further for then in spec.then for further in chain_of(then)))


def taken(spec: FaultSpec, plan: Plan) -> str:
    """Return the most that the faults of *plan* take away, as a survival class; "" for none."""
    classes = list(Survival)
    faults = {each.label: each.fault.survival for each in chain_of(spec)}
    taken = [faults[planned.fault] for planned in plan.faults if planned.fault in faults]
    return str(max(taken, key=classes.index, default=""))
