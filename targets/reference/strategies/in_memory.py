"""LangGraph's checkpoints in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from chaos.targets.reference.agent import State
from chaos.targets.reference.incarnation import Agent


@dataclass(frozen=True)
class InMemory:
    """Checkpoints every step with LangGraph's InMemorySaver: they die with the process. A control."""

    claims: ClassVar[frozenset[str]] = frozenset()
    store: ClassVar[str] = ""
    durable: ClassVar[bool] = False

    def run(self, agent: Agent) -> None:
        """Begin anew, for no other process's memory can be read, and drive the agent to its end."""
        from chaos.targets.reference import graph

        graph.drive(agent, graph.Memory(agent), every=None, durability="sync")

    def load(self, durable: Path) -> State | None:
        """Return None: the store was in memory."""
        return None
