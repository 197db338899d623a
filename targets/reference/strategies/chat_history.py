"""The conversation alone, in an append-only file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from chaos.targets.reference.agent import State, canonical, done, remembered, turns
from chaos.targets.reference.history import Log, lines
from chaos.targets.reference.incarnation import Agent


@dataclass(frozen=True)
class ChatHistory:
    """Keeps the messages, one fsynced JSON line for each step, and nothing else.

    A torn last line is cut off on resume. The budget's counters and the shell (its directory, its variables, its
    background services) are forgotten.
    """

    claims: ClassVar[frozenset[str]] = frozenset({"messages"})
    store: ClassVar[str] = "jsonl"
    durable: ClassVar[bool] = True

    def run(self, agent: Agent) -> None:
        """Begin, or go on from the messages, and drive the agent to its end."""
        agent.loading()
        stored = self.load(agent.durable)
        log = Log(agent.durable)
        state = agent.loaded(stored)
        if stored is None:
            log.append(canonical({"messages": state["messages"]}))
        while not done(state):
            step, before = turns(state), len(state["messages"])
            state = agent.turn(state)
            new = canonical({"messages": state["messages"][before:]})
            log.append(new, lambda step=step: agent.committing(step))  # type: ignore[misc]
            agent.committed(step)
        agent.finished(state)

    def load(self, durable: Path) -> State | None:
        """Return a state that has the stored messages and is new otherwise."""
        messages = [message for line in lines(durable) for message in json.loads(line)["messages"]]
        return remembered(messages) if messages else None
