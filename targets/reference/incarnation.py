"""One incarnation of the agent: the pure pieces joined to the model, the tools and the probe.

A strategy drives it::

    agent.loading()
    state = agent.loaded(what the store holds, or None)
    while not done(state):
        state = agent.turn(state)
        agent.committing(step); make it durable; agent.committed(step)
    agent.finished(state)
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TypedDict

from chaos.probe import point
from chaos.targets.reference.agent import Digest, State, done, fold, start, think, turns
from chaos.targets.reference.model import Model
from chaos.targets.reference.tools import Tools, Zones


class Config(TypedDict):
    """What `Reference.launch` puts into the environment."""

    strategy: str  # "module:Class"
    options: dict[str, object]
    goal: str
    max_steps: int
    step_ms: int
    workload: str
    seed: int


class BudgetExhausted(Exception):
    """The agent has used up the steps that it may take, by its own account."""


class Agent:
    """The agent in this process; *thread* is its identity over all incarnations."""

    def __init__(self, config: Config, zones: Zones, thread: str, model: Model, tools: Tools) -> None:
        self.goal, self.thread, self.zones = config["goal"], thread, zones
        self._max_steps, self._seconds = config["max_steps"], config["step_ms"] / 1000
        self._model, self._tools = model, tools
        self._digest = Digest()
        self._digests: dict[int, str] = {}  # by step: a commit may lag behind the turns, on another thread

    @property
    def durable(self) -> Path:
        """The volume: the one place that outlives the container."""
        return self.zones.durable

    def loading(self) -> None:
        """Announce that the store is about to be read."""
        point("before_load", 0)

    def loaded(self, state: State | None) -> State:
        """Take up *state*, or begin anew: set up the shell like the one that it remembers; return the state."""
        state = state or start(self.goal)
        self._tools.recover(state["session"])
        step = turns(state)
        self._digests[step - 1] = self._digest(state)
        point("after_load", step, state=self._digests[step - 1])
        return state

    def turn(self, state: State) -> State:
        """Do one step and return the state after it."""
        if state["steps"] >= self._max_steps:
            raise BudgetExhausted(f"{state['steps']} steps are used, {self._max_steps} are allowed")
        step = turns(state)
        point("before_think", step)
        reply = self._model.ask(think(state))
        point("before_act", step)
        if self._seconds:
            time.sleep(self._seconds)
        results = [self._tools.act(call) for call in reply.message.get("tool_calls", [])]
        point("after_act", step)
        state = fold(state, reply, results)
        self._digests[step] = self._digest(state)
        return state

    def committing(self, step: int) -> None:
        """Announce that *step* is being made durable, and is not yet."""
        point("during_commit", step)

    def committed(self, step: int) -> None:
        """Announce that *step* is durable."""
        point("after_commit", step, state=self._digests.get(step))

    def finished(self, state: State) -> None:
        """Announce that all is done; the snapshot is the whole state."""
        assert done(state)
        point("finished", turns(state), state=self._digest(state), snapshot=state)

    def close(self) -> None:
        """End what this incarnation started."""
        self._tools.close()
        self._model.close()
