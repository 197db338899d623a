"""Faults: what breaks. One file each; its name is the YAML name, its fields are the YAML keys.

Where, how often and with which probability belong to the plan, never to the fault.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from chaos.journal import AnyEvent, Journal
from chaos.results import Landed
from chaos.sandbox import Able, Sandbox, Survival

if TYPE_CHECKING:
    from chaos.stores import Store
    from chaos.world.server import World


class Hold(Protocol):
    """The gate while the agent is held at a point."""

    def serve_until_exit(self, timeout: float) -> bool:
        """Leave the held point unanswered, let everything announced from now on pass; tell if the agent ended."""
        ...


@dataclass(frozen=True)
class Scene:
    """What a fault can reach while the agent is held at its point. *rng* is the run's own."""

    sandbox: Sandbox
    world: World
    journal: Journal
    gate: Hold
    rng: random.Random
    store: Store | None


class Fault(Protocol):
    """A frozen dataclass with defaults for every field. Its docstring says what a correct agent must survive."""

    @property
    def survival(self) -> Survival:
        """What the fault takes away."""
        ...

    def missing(self, able: Able) -> str:
        """Return what this machine lacks for the fault, and the remedy; "" if nothing."""
        ...

    def unsuited(self, store: Store | None) -> str:
        """Return why the fault makes no sense for a strategy with this *store*; "" if it does."""
        ...

    def inject(self, scene: Scene) -> None:
        """Break it for real, and write what was done into the journal."""
        ...

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        """Return the proof that the fault hit at the point *at*, from the events since then; None if it missed."""
        ...
