"""LangGraph's checkpoints in SQLite, the whole state each time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, get_args

from chaos.errors import ScenarioError
from chaos.targets.reference.agent import State
from chaos.targets.reference.incarnation import Agent

Durability = Literal["sync", "async", "exit"]


@dataclass(frozen=True)
class FullSnapshot:
    """Checkpoints the whole state after every step with LangGraph's SqliteSaver.

    Files are not part of it: the shell is set up again, but what ran in it needs files that may be gone.

    Args:
        durability: when LangGraph writes: before the next step ("sync"), beside it ("async"), or only when the run
            ends ("exit").
    """

    claims: ClassVar[frozenset[str]] = frozenset({"messages", "environment"})
    store: ClassVar[str] = "langgraph_sqlite"
    durable: ClassVar[bool] = True

    durability: Durability = "sync"

    def __post_init__(self) -> None:
        if self.durability not in get_args(Durability):
            raise ScenarioError(f"durability must be sync, async or exit (got {self.durability!r})")

    def run(self, agent: Agent) -> None:
        """Begin, or go on from the newest checkpoint, and drive the agent to its end."""
        from chaos.targets.reference import graph

        with graph.opened(agent.durable) as connection:
            saver = graph.Sqlite(connection, agent, self.durability)
            graph.drive(agent, saver, every=None, durability=self.durability)

    def load(self, durable: Path) -> State | None:
        """Return the state of the newest checkpoint."""
        from chaos.targets.reference import graph

        return graph.stored(durable, every=None)
