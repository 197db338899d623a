"""A cell: one field of the matrix, and what follows from it alone."""

from __future__ import annotations

from dataclasses import dataclass

from chaos import registry
from chaos.explorers import Seeker
from chaos.explorers.pairs import Pairs
from chaos.explorers.search import Search
from chaos.parts import WHOLE, Part
from chaos.plan import Plan
from chaos.sandbox import Survival
from chaos.scenario import FaultSpec, Scenario, StrategySpec
from chaos.stores import Store
from chaos.variants import Variants


@dataclass(frozen=True)
class Cell:
    """One field of the matrix, or a *part* of its runs; *order* is its place in the campaign."""

    scenario: Scenario
    strategy: StrategySpec
    fault: FaultSpec
    order: int = 0
    part: Part = WHOLE

    @property
    def name(self) -> str:
        part = f"-part{self.part.number}of{self.part.of}" if self.part.of > 1 else ""
        return f"{self.strategy.label}-{self.fault.label}{part}"


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


def seeker_of(spec: FaultSpec) -> Seeker | None:
    """Return the explorer of *spec*, or of what follows it, that chooses plans by what became of those before."""
    return next((each.at for each in chain_of(spec) if isinstance(each.at, Seeker)), None)


def starts_of(spec: FaultSpec) -> tuple[str, ...]:
    """Return the labels of the faults that a plan of *spec* may begin with."""
    return tuple(each.label for each in chain_of(spec)) if isinstance(spec.at, Search | Pairs) else (spec.label,)


def taken(spec: FaultSpec, plan: Plan) -> str:
    """Return the most that the faults of *plan* take away, as a survival class; "" for none."""
    classes = list(Survival)
    faults = Variants({each.label: each.fault for each in chain_of(spec)})
    taken = [faults[planned.fault].survival for planned in plan.faults if planned.fault in faults]
    return str(max(taken, key=classes.index, default=""))
