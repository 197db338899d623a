"""A Deep Agent's state in SQLite: messages and files, both as deltas."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar

from chaos.durable import Durable
from chaos.errors import ScenarioError
from chaos.targets import InProcess
from chaos.targets.reference import databases
from chaos.targets.reference.agent import State
from chaos.targets.reference.incarnation import Agent


@dataclass(frozen=True)
class DeepAgents(InProcess):
    """Runs as a Deep Agent whose messages and files are delta channels in SqliteSaver.

    The files are those that the agent wrote with its tool for it; a resume writes back the ones that the workspace
    lacks. What commands, git and the installer left is not among them, so files are not claimed.

    Args:
        every: a snapshot of a channel after this many updates of it; messages have two in a turn.
    """

    claims: ClassVar[frozenset[str]] = frozenset({"messages", "environment"})
    store: ClassVar[str] = databases.store("sqlite")
    durable: ClassVar[bool] = True
    imports: ClassVar[tuple[str, ...]] = ("chaos.targets.reference.deep",)

    every: int = 50

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ScenarioError(f"every must be at least 1 (got {self.every})")

    def missing(self) -> str:
        if find_spec("deepagents") is None:
            return f"no package deepagents: {databases.REMEDY}"
        return databases.missing("sqlite")

    def run(self, agent: Agent) -> None:
        """Begin, or go on from the newest checkpoint, and drive the agent to its end."""
        from chaos.targets.reference import deep

        deep.drive(agent, every=self.every)

    def load(self, durable: Durable) -> State | None:
        """Return the state after the complete steps of the newest checkpoint."""
        from chaos.targets.reference import deep

        return deep.stored(durable, every=self.every)
