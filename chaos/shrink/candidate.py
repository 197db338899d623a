"""What is shrunk: faults at points, the target that they hit, and the run whose random choices they make."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.faults import Fault
from chaos.plan import Point
from chaos.targets import Target


@dataclass(frozen=True)
class Hit:
    """The *fault* of a *kind*, called *label* in its scenario unless it was made simpler, hits at *point*."""

    label: str
    kind: str
    fault: Fault
    point: Point


@dataclass(frozen=True)
class Candidate:
    """One run to try: *hits* in this order on *target*; its chance is that of the run number *run*."""

    hits: tuple[Hit, ...]
    target: Target
    run: int = 0
