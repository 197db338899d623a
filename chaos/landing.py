"""Did the planned faults hit? What proves it, or what became of them. Pure functions of a record."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from chaos.events.done import Injecting
from chaos.sandbox import Survival

if TYPE_CHECKING:
    from chaos.plan import Plan
    from chaos.record import Record
    from chaos.results import Landed
    from chaos.run import Setup


def landings(run: Record, plan: Plan, setup: Setup) -> tuple[Landed, ...]:
    """Return the proof of each planned fault that hit; a fault that missed has none."""
    return tuple(proof for proof in _proofs(run, plan, setup) if proof is not None)


def misses(run: Record, plan: Plan, setup: Setup) -> tuple[str, ...]:
    """Return for each planned fault that did not hit what became of it."""
    proofs = _proofs(run, plan, setup)
    injected = [
        f"{planned} was injected and left no proof that it hit"
        for planned, proof in zip(plan.faults, proofs, strict=False)
        if proof is None
    ]
    return (*injected, *(f"the agent never came to {planned}" for planned in plan.faults[len(proofs) :]))


def _proofs(run: Record, plan: Plan, setup: Setup) -> list[Landed | None]:
    """Return what proves each fault that was injected, in order; None where nothing does."""
    starts = run.index.places(Injecting, "any", lambda event: True)
    proofs = []
    for number, (begin, end) in enumerate(pairwise([*starts, len(run.index)])):
        planned = plan.faults[number]
        fault = setup.faults[planned.fault]
        # What takes something away has done so before the next fault; a burst of refusals may go on behind it.
        after = run.index.window(begin + 1, len(run.index) if fault.survival is Survival.NONE else end)
        proofs.append(fault.landed(str(planned.point), after))
    return proofs
