"""Random plans: any registered faults with any values of their fields, on any strategy, at any points.

What there is comes from the registry, and what values a field may have from its type, so that a new fault or strategy
takes part from its first day. The n-th plan of a seed is always the same one, whichever came before.
"""

from __future__ import annotations

import dataclasses
import random
import types
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from chaos import registry, seeds
from chaos.cell import Cell, chain_of
from chaos.checks import Terms
from chaos.errors import ScenarioError
from chaos.explorers.fixed import Fixed
from chaos.faults import Fault
from chaos.plan import STEP_PHASES, SYSCALLS, Case, Plan, PlannedFault, Point
from chaos.scenario import FaultSpec, Limits, Scenario, StrategySpec
from chaos.scenario.units import Bytes, Seconds
from chaos.targets.reference import Reference

STEPS = 12  # the shortest script
MAX_FAULTS = 3
TRIES = 50  # values that a class refuses, or that a fault's plan does not suit, are drawn anew

SECONDS = (0.0, 0.01, 0.05, 0.2, 0.5)  # hardly longer than a step: a thousand plans have to end
SIZES = (1, 100, 4096, 50_000, 16 << 20)
NUMBERS = (1, 2, 3)
SHARES = (0.0, 0.3, 0.5, 0.9, 1.0)

RECOVERY = ("before_load", "after_load", *STEP_PHASES)
MAX_CALL = 30  # number of a system call of one kind: most strategies make more in a run
SYSCALL_SHARE, RECOVERY_SHARE, END_SHARE = 0.1, 0.6, 0.03  # of the points: at calls; of later faults: while it recovers

LIMITS = Limits(backoff_limit=6, deadline_seconds=15.0, heartbeat_seconds=3.0)


@dataclass(frozen=True)
class Drawn:
    """One plan to run."""

    number: int
    cell: Cell
    case: Case

    @property
    def faults(self) -> tuple[FaultSpec, ...]:
        return chain_of(self.cell.fault)

    def __str__(self) -> str:
        faults = ", ".join(f"{spec.label} = {spec.fault!r}" for spec in self.faults)
        return f"plan {self.number}: {self.cell.strategy.label} under {self.case.plan} with {faults}"


def draw(seed: int, number: int, attempt: int, strategies: Sequence[str], faults: Sequence[str]) -> Drawn:
    """Return the plan *number* of *seed*; the next *attempt* at it if the one before did not suit this machine."""
    rng = seeds.rng(seed, "soak", number, attempt)
    target = Reference(steps=STEPS, stream=rng.random() < 0.3)
    strategy = _strategy(target, rng.choice(strategies), rng)
    specs = [
        FaultSpec(f"{kind}.{place}", kind, _fault(kind, rng), Fixed())
        for place, kind in enumerate(rng.choices(faults, k=rng.randint(1, MAX_FAULTS)), 1)
    ]
    points = _in_order([_point(place, rng) for place in range(len(specs))])
    plan = Plan(tuple(PlannedFault(spec.label, point) for spec, point in zip(specs, points, strict=True)))
    first = specs[-1]
    for spec in reversed(specs[:-1]):
        first = dataclasses.replace(spec, then=(first,))
    scenario = Scenario(
        path=Path("soak"), name="soak", description="", tags=(), target=target, strategies=(strategy,), faults=(first,),
        checks=tuple(registry.names("checks")), terms=Terms(), volatile=(), expected=(), limits=LIMITS, runs=1,
    )  # fmt: skip
    return Drawn(number, Cell(scenario, strategy, first), Case(plan, number))


def _point(place: int, rng: random.Random) -> Point:
    """Return a point for the fault at *place* of a plan, from 0; later ones mostly hit while the agent recovers."""
    if rng.random() < SYSCALL_SHARE:
        return Point(rng.randint(1, MAX_CALL), rng.choice(SYSCALLS))
    if rng.random() < END_SHARE:
        return Point(None, "finished")
    if place and rng.random() < RECOVERY_SHARE:
        return Point(None, rng.choice(RECOVERY), recovery=True)
    return Point(rng.randrange(STEPS), rng.choice(STEP_PHASES))


def _in_order(points: list[Point]) -> list[Point]:
    """Return *points* with those of steps in the order in which a run comes to them: a plan waits for each in turn."""
    steps = iter(sorted(filter(_is_step, points), key=lambda point: (point.step, STEP_PHASES.index(point.phase))))
    return [next(steps) if _is_step(point) else point for point in points]


def _is_step(point: Point) -> bool:
    return point.step is not None and point.phase in STEP_PHASES


def _strategy(target: Reference, name: str, rng: random.Random) -> StrategySpec:
    """Return the strategy *name* with options of any values that it takes."""
    kind = registry.load("strategies", name)
    for _ in range(TRIES):
        options = _values(kind, rng)
        try:
            label = ",".join([name, *(f"{key}={value}" for key, value in options.items())])
            return StrategySpec(label, name, target.strategy(name, options))
        except ScenarioError:
            continue
    return StrategySpec(name, name, target.strategy(name, {}))


def _fault(name: str, rng: random.Random) -> Fault:
    kind = registry.load("faults", name)
    for _ in range(TRIES):
        try:
            made: Fault = kind(**_values(kind, rng))
            return made
        except (ScenarioError, ValueError):
            continue
    plain: Fault = kind()
    return plain


def _values(kind: type, rng: random.Random) -> dict[str, Any]:
    """Return values for about half of the fields of the dataclass *kind*."""
    hints = get_type_hints(kind, include_extras=True)
    chosen = [field for field in dataclasses.fields(kind) if field.init and rng.random() < 0.5]
    return {field.name: value for field in chosen if (value := drawn(hints[field.name], rng)) is not ...}


def drawn(hint: Any, rng: random.Random) -> Any:
    """Return a value of the type *hint*, `...` if none is known."""
    if hint == Seconds:
        return rng.choice(SECONDS)
    if hint == Bytes:
        return rng.choice(SIZES)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return rng.choice(arguments)
    if origin in (Union, types.UnionType):
        return drawn(rng.choice(arguments), rng)
    if hint is type(None):
        return None
    if origin is Annotated:
        right = [one for one in (drawn(arguments[0], rng) for _ in range(TRIES)) if _is_right(one, hint)]
        return right[0] if right else ...
    pools: dict[Any, Sequence[Any]] = {bool: (False, True), int: NUMBERS, float: SHARES}
    return rng.choice(pools[hint]) if hint in pools else ...


def _is_right(value: Any, hint: Any) -> bool:
    from pydantic import TypeAdapter, ValidationError

    try:
        return bool(TypeAdapter(hint).validate_python(value) == value)
    except ValidationError:
        return False
