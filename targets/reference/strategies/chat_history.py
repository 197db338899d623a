"""The conversation alone, in a file or on a Redis server."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from chaos.durable import Durable
from chaos.errors import ScenarioError
from chaos.targets import InProcess
from chaos.targets.reference import history, redis_history
from chaos.targets.reference.agent import State, canonical, done, remembered, turns
from chaos.targets.reference.incarnation import Agent

Database = Literal["jsonl", "redis"]
Write = Literal["append", "rewrite"]
History = history.Log | history.Whole | redis_history.Entries | redis_history.Whole


@dataclass(frozen=True)
class ChatHistory(InProcess):
    """Keeps the messages, one JSON text for each step, and nothing else.

    A torn last line is cut off on resume. The budget's counters and the shell (its directory, its variables, its
    background services) are forgotten.

    Args:
        database: lines of a file, fsynced, or a key of a Redis server.
        write: whether a step is appended, or written together with all before it.
    """

    claims: ClassVar[frozenset[str]] = frozenset({"messages"})
    durable: ClassVar[bool] = True

    database: Database = "jsonl"
    write: Write = "append"

    def __post_init__(self) -> None:
        for name, given, known in (
            ("database", self.database, get_args(Database)),
            ("write", self.write, get_args(Write)),
        ):
            if given not in known:
                raise ScenarioError(f"{name} must be {' or '.join(known)} (got {given!r})")

    @property
    def store(self) -> str:
        return "redis_history" if self.database == "redis" else "jsonl"

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("redis",) if self.database == "redis" else ()

    @property
    def imports(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("redis",) if self.database == "redis" else ()

    def run(self, agent: Agent) -> None:
        """Begin, or go on from the messages, and drive the agent to its end."""
        agent.loading()
        stored = self.load(agent.durable)
        log = self._opened(agent)
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

    def load(self, durable: Durable) -> State | None:
        """Return a state that has the stored messages and is new otherwise."""
        if self.database == "redis":
            stored = redis_history.lines(durable.leases["redis"])
        else:
            stored = history.lines(durable.folder)
        messages = [message for line in stored for message in json.loads(line)["messages"]]
        return remembered(messages) if messages else None

    def _opened(self, agent: Agent) -> History:
        if self.database == "redis":
            on_server = redis_history.Entries if self.write == "append" else redis_history.Whole
            return on_server(agent.durable.leases["redis"], agent.thread)
        in_file = history.Log if self.write == "append" else history.Whole
        return in_file(agent.durable.folder)
