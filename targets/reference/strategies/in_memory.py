"""LangGraph's checkpoints in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaos.durable import Durable
from chaos.targets import InProcess
from chaos.targets.reference.agent import State
from chaos.targets.reference.incarnation import Agent


@dataclass(frozen=True)
class InMemory(InProcess):
    """Checkpoints every step with LangGraph's InMemorySaver: they die with the process. A control."""

    claims: ClassVar[frozenset[str]] = frozenset()
    store: ClassVar[str] = ""
    durable: ClassVar[bool] = False
    imports: ClassVar[tuple[str, ...]] = ("chaos.targets.reference.graph",)

    def run(self, agent: Agent) -> None:
        """Begin anew, for no other process's memory can be read, and drive the agent to its end."""
        from chaos.targets.reference import graph

        graph.drive(agent, graph.memory(agent), every=None, durability="sync")

    def load(self, durable: Durable) -> State | None:
        """Return None: the store was in memory."""
        return None
