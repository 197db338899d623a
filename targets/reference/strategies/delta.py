"""LangGraph's checkpoints in SQLite, the conversation as deltas."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, get_args

from chaos.errors import ScenarioError
from chaos.targets.reference.agent import State
from chaos.targets.reference.incarnation import Agent
from chaos.targets.reference.strategies.full_snapshot import Durability


@dataclass(frozen=True)
class Delta:
    """Stores of each step only its new messages, with LangGraph's DeltaChannel and SqliteSaver.

    A resume replays the deltas since the newest snapshot; no checksum protects them.

    Args:
        every: a snapshot of the whole conversation after this many steps.
        durability: as for `full_snapshot`.
    """

    claims: ClassVar[frozenset[str]] = frozenset({"messages", "environment"})
    store: ClassVar[str] = "langgraph_sqlite"
    durable: ClassVar[bool] = True

    every: int = 20
    durability: Durability = "sync"

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ScenarioError(f"every must be at least 1 (got {self.every})")
        if self.durability not in get_args(Durability):
            raise ScenarioError(f"durability must be sync, async or exit (got {self.durability!r})")

    def run(self, agent: Agent) -> None:
        """Begin, or go on from the newest checkpoint, and drive the agent to its end."""
        from chaos.targets.reference import graph

        with graph.opened(agent.durable) as connection:
            saver = graph.Sqlite(connection, agent, self.durability)
            graph.drive(agent, saver, every=self.every, durability=self.durability)

    def load(self, durable: Path) -> State | None:
        """Return the state of the newest checkpoint, replayed from its deltas."""
        from chaos.targets.reference import graph

        return graph.stored(durable, every=self.every)
