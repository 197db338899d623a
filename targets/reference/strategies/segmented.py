"""The work in three phases, each a thread of LangGraph's with a hand-off from the one before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from chaos.durable import Durable
from chaos.errors import ScenarioError
from chaos.targets import InProcess
from chaos.targets.reference import databases
from chaos.targets.reference.agent import State
from chaos.targets.reference.incarnation import Agent

Handoffs = Literal["complete", "lossy"]


@dataclass(frozen=True)
class Segmented(InProcess):
    """Cuts the work into three phases with their own threads in SqliteSaver, joined by typed hand-offs.

    A phase knows the goal, its own messages, and what was handed to it: a summary, decisions, key data and errors. A
    resume goes on in the phase that is not over.

    Args:
        handoff: what of a hand-off is stored: all of it ("complete"), or its summary only ("lossy"), so that the rest
            is known until the process ends.
    """

    claims: ClassVar[frozenset[str]] = frozenset({"messages", "environment"})
    store: ClassVar[str] = databases.store("sqlite")
    durable: ClassVar[bool] = True
    imports: ClassVar[tuple[str, ...]] = ("chaos.targets.reference.phases",)

    handoff: Handoffs = "complete"

    def __post_init__(self) -> None:
        if self.handoff not in get_args(Handoffs):
            raise ScenarioError(f"handoff must be complete or lossy (got {self.handoff!r})")

    def missing(self) -> str:
        return databases.missing("sqlite")

    def run(self, agent: Agent) -> None:
        """Begin, or go on in the phase that is not over, and drive the agent to its end."""
        from chaos.targets.reference import phases

        phases.drive(agent, complete=self.handoff == "complete")

    def load(self, durable: Durable) -> State | None:
        """Return the state of the phase that is not over."""
        from chaos.targets.reference import phases

        return phases.stored(durable)
