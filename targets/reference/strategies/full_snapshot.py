"""LangGraph's checkpoints in SQLite or PostgreSQL, the whole state each time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaos.durable import Durable
from chaos.targets import InProcess
from chaos.targets.reference import databases
from chaos.targets.reference.agent import State
from chaos.targets.reference.databases import Database, Durability
from chaos.targets.reference.incarnation import Agent


@dataclass(frozen=True)
class FullSnapshot(InProcess):
    """Checkpoints the whole state after every step with LangGraph's SqliteSaver or PostgresSaver.

    Files are not part of it: the shell is set up again, but what ran in it needs files that may be gone.

    Args:
        database: where the checkpoints are: in a file of the volume, or on a server.
        durability: when LangGraph writes: before the next step ("sync"), beside it ("async"), or only when the run
            ends ("exit").
    """

    claims: ClassVar[frozenset[str]] = frozenset({"messages", "environment"})
    durable: ClassVar[bool] = True

    database: Database = "sqlite"
    durability: Durability = "sync"

    def __post_init__(self) -> None:
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
            graph.drive(agent, saver, every=None, durability=self.durability)

    def load(self, durable: Durable) -> State | None:
        """Return the state of the newest checkpoint."""
        from chaos.targets.reference import graph

        return graph.stored(durable, self.database, every=None)
