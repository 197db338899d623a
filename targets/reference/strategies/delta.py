"""LangGraph's checkpoints in SQLite or PostgreSQL, the conversation as deltas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaos.durable import Durable
from chaos.errors import ScenarioError
from chaos.targets import InProcess
from chaos.targets.reference import databases
from chaos.targets.reference.agent import State
from chaos.targets.reference.databases import Database, Durability
from chaos.targets.reference.incarnation import Agent


@dataclass(frozen=True)
class Delta(InProcess):
    """Stores of each step only its new messages, with LangGraph's DeltaChannel.

    A resume replays the deltas since the newest snapshot; no checksum protects them.

    Args:
        every: a snapshot of the whole conversation after this many steps.
        database: as for `full_snapshot`.
        durability: as for `full_snapshot`.
    """

    claims: ClassVar[frozenset[str]] = frozenset({"messages", "environment"})
    durable: ClassVar[bool] = True

    every: int = 20
    database: Database = "sqlite"
    durability: Durability = "sync"

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ScenarioError(f"every must be at least 1 (got {self.every})")
        databases.check(self.database, self.durability)

    @property
    def store(self) -> str:
        return databases.store(self.database)

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        return databases.needs(self.database)

    @property
    def imports(self) -> tuple[str, ...]:  # type: ignore[override]
        return databases.imports(self.database)

    def missing(self) -> str:
        return databases.missing(self.database)

    def run(self, agent: Agent) -> None:
        """Begin, or go on from the newest checkpoint, and drive the agent to its end."""
        from chaos.targets.reference import graph

        with graph.saver(agent, self.database, self.durability) as saver:
            graph.drive(agent, saver, every=self.every, durability=self.durability)

    def load(self, durable: Durable) -> State | None:
        """Return the state of the newest checkpoint, replayed from its deltas."""
        from chaos.targets.reference import graph

        return graph.stored(durable, self.database, every=self.every)
