"""LangGraph's checkpoints in SQLite or PostgreSQL, of some steps only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from chaos.durable import Durable
from chaos.errors import ScenarioError
from chaos.targets import InProcess
from chaos.targets.reference import databases
from chaos.targets.reference.agent import State
from chaos.targets.reference.databases import Database
from chaos.targets.reference.incarnation import Agent

Channels = Literal["full", "delta"]

SNAPSHOTS = 100
"""A delta channel's own snapshot frequency: LangGraph's default."""


@dataclass(frozen=True)
class Selective(InProcess):
    """Keeps LangGraph's checkpoints of the critical steps and of every Nth, with a saver that drops all others.

    A step is critical if it calls a service, which may have an effect outside that must not happen twice; so is the
    last. A resume does the steps since the newest kept one again. On delta channels it is unsound, for a delta that
    was dropped is missing in every later state.

    Args:
        every: also keep every step whose number (from 1) is a multiple of this.
        database: as for `full_snapshot`.
        channels: whether a checkpoint holds the whole conversation ("full") or counts on the deltas before it.
    """

    claims: ClassVar[frozenset[str]] = frozenset({"messages", "environment"})
    durable: ClassVar[bool] = True

    every: int = 10
    database: Database = "sqlite"
    channels: Channels = "full"

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ScenarioError(f"every must be at least 1 (got {self.every})")
        if self.channels not in get_args(Channels):
            raise ScenarioError(f"channels must be full or delta (got {self.channels!r})")
        databases.check(self.database, "sync")

    @property
    def store(self) -> str:
        return databases.store(self.database)

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        return databases.needs(self.database)

    @property
    def imports(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("chaos.targets.reference.selection", *databases.imports(self.database))

    def missing(self) -> str:
        return databases.missing(self.database)

    def run(self, agent: Agent) -> None:
        """Begin, or go on from the newest kept checkpoint, and drive the agent to its end."""
        from chaos.targets.reference import graph, savers, selection

        with savers.opened(agent.durable, self.database) as inner:
            saver = selection.Selective(agent, inner, self.every)
            graph.drive(agent, saver, every=self._snapshots, durability="sync")

    def load(self, durable: Durable) -> State | None:
        """Return the state of the newest kept checkpoint."""
        from chaos.targets.reference import graph

        return graph.stored(durable, self.database, every=self._snapshots)

    @property
    def _snapshots(self) -> int | None:
        return SNAPSHOTS if self.channels == "delta" else None
