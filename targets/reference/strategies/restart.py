"""Start over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaos.durable import Durable
from chaos.targets import InProcess
from chaos.targets.reference.agent import State, done
from chaos.targets.reference.incarnation import Agent


@dataclass(frozen=True)
class Restart(InProcess):
    """Keeps nothing: every incarnation begins at step 0. The control that shows what recovery is worth."""

    claims: ClassVar[frozenset[str]] = frozenset()
    store: ClassVar[str] = ""
    durable: ClassVar[bool] = False

    def run(self, agent: Agent) -> None:
        """Begin anew and drive the agent to its end."""
        agent.loading()
        state = agent.loaded(None)
        while not done(state):
            state = agent.turn(state)
        agent.finished(state)

    def load(self, durable: Durable) -> State | None:
        """Return None: there is no store."""
        return None
