"""The conversation and the files of every step, together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from chaos.targets.reference.agent import State, canonical, done, turns
from chaos.targets.reference.history import Log
from chaos.targets.reference.incarnation import Agent
from chaos.targets.reference.manifest import GENESIS, chained, folder, publish, read
from chaos.targets.reference.snapshot import Snapshots


@dataclass(frozen=True)
class Cow:
    """Takes a copy-on-write snapshot of workspace and tmp with every step and aligns it with the messages.

    A step counts when its manifest is in place: contents, messages and manifest are durable before that. A resume
    makes the folders exactly what they were, before the shell starts; checksums tell damage, which is refused.
    """

    claims: ClassVar[frozenset[str]] = frozenset({"messages", "files", "environment", "processes"})
    store: ClassVar[str] = "jsonl"
    durable: ClassVar[bool] = True

    def run(self, agent: Agent) -> None:
        """Begin, or go on from the newest manifest, and drive the agent to its end."""
        agent.loading()
        zones = {"workspace": agent.zones.workspace, "tmp": agent.zones.tmp}
        snapshots = Snapshots(folder(agent.durable) / "objects", zones)
        stored = read(agent.durable)
        if stored is not None:
            snapshots.restore(stored.tree)
        log = Log(agent.durable, stored.lines if stored else 0)
        state = agent.loaded(stored.state if stored else None)
        lines, chain = (stored.lines, stored.chain) if stored else (0, GENESIS)
        if stored is None:
            lines, chain = 1, _append(log, chain, state, 0)
        while not done(state):
            step, before = turns(state), len(state["messages"])
            state = agent.turn(state)
            tree = snapshots.take()
            lines, chain = lines + 1, _append(log, chain, state, before)
            publish(agent.durable, lines, chain, state, tree, lambda step=step: agent.committing(step))  # type: ignore[misc]
            agent.committed(step)
        agent.finished(state)

    def load(self, durable: Path) -> State | None:
        """Return the state of the newest manifest; raise CorruptStore if it is damaged."""
        stored = read(durable)
        return stored.state if stored else None


def _append(log: Log, chain: str, state: State, before: int) -> str:
    """Append the messages from *before* on to *log* and return the chain's new end."""
    new = state["messages"][before:]
    chain = chained(chain, new)
    log.append(canonical({"chain": chain, "messages": new}))
    return chain
