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
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypedDict

from chaos.durable import Durable
from chaos.probe import point
from chaos.targets.reference.agent import Completion, Digest, State, done, fold, narrower, start, think, turns
from chaos.targets.reference.model import Model, PromptTooLong
from chaos.targets.reference.tools import Tools, Zones
from chaos.world import ToolCall

Act = Callable[[ToolCall], str]
"""Does what a tool call says and returns the result."""


class Config(TypedDict):
    """What `Reference.launch` puts into the environment."""

    strategy: str  # "module:Class"
    options: dict[str, object]
    goal: str
    max_steps: int
    step_ms: int
    window: int
    on_overflow: str  # "fail" | "compact"
    stream: bool
    timeout_ms: int
    workload: str
    seed: int


class BudgetExhausted(Exception):
    """The agent has used up the steps that it may take, by its own account."""


class Unfinished(Exception):
    """What drives the agent stopped before its work was done."""


class Agent:
    """The agent in this process; *thread* is its identity over all incarnations, *durable* is all that outlives it."""

    def __init__(self, config: Config, zones: Zones, durable: Durable, thread: str, model: Model, tools: Tools) -> None:
        self.goal, self.thread, self.zones, self.durable = config["goal"], thread, zones, durable
        self._max_steps, self._seconds = config["max_steps"], config["step_ms"] / 1000
        self._window, self._compacts = config["window"], config["on_overflow"] == "compact"
        self._model, self._tools = model, tools
        self._digest = Digest()
        self._digests: dict[int, str] = {}  # by step: a commit may lag behind the turns, on another thread

    @property
    def max_steps(self) -> int:
        """The steps that it may take, redone ones included."""
        return self._max_steps

    def loading(self) -> None:
        """Announce that the store is about to be read."""
        point("before_load", 0)

    def loaded(self, state: State | None, onwards: Callable[[Act], State] | None = None) -> State:
        """Take up *state*, or begin anew: set up the shell like the one that it remembers; return the state.

        Args:
            onwards: brings the sandbox from *state* to the state that it returns, by calls of tools.
        """
        state = state or start(self.goal)
        self._tools.recover(state["session"])
        if onwards is not None:
            state = onwards(self._tools.act)
        step = turns(state)
        self._digests[step - 1] = self._digest(state)
        point("after_load", step, state=self._digests[step - 1])
        return state

    def turn(self, state: State) -> State:
        """Do one step and return the state after it."""
        step = turns(state)
        reply = self.ask(state)
        state = fold(state, reply, self.act(step, reply.message.get("tool_calls", [])))
        self.took(state)
        return state

    def ask(self, state: State) -> Completion:
        """Return the model's reply to *state*: the first half of a step.

        Every try has its point: before the first one, and when a further one is to come, before the wait for it.
        """
        if state["steps"] >= self._max_steps:
            raise BudgetExhausted(f"{state['steps']} steps are used, {self._max_steps} are allowed")
        think_again = partial(point, "before_think", turns(state))
        think_again()
        while True:
            try:
                return self._model.ask(think(state, self._window), think_again)
            except PromptTooLong:
                self._window = narrower(state, self._window)
                if not (self._compacts and self._window):
                    raise

    def act(self, step: int, calls: Sequence[ToolCall]) -> list[str]:
        """Do what the *calls* of *step* say and return their results: the second half."""
        point("before_act", step)
        if self._seconds:
            time.sleep(self._seconds)
        results = [self._tools.act(call) for call in calls]
        point("after_act", step)
        return results

    def took(self, state: State) -> None:
        """Take *state* for what the last step led to; the end of a phase may change it once more."""
        self._digests[turns(state) - 1] = self._digest(state)

    def committing(self, step: int) -> None:
        """Announce that *step* is being made durable, and is not yet."""
        point("during_commit", step)

    def committed(self, step: int) -> None:
        """Announce that *step* is durable."""
        point("after_commit", step, state=self._digests.get(step))

    def finished(self, state: State) -> None:
        """Announce that all is done; the snapshot is the whole state."""
        if not done(state):
            raise Unfinished(f"the runtime calls the work finished after {turns(state)} turns, and it is not")
        point("finished", turns(state), state=self._digest(state), snapshot=state)

    def close(self) -> None:
        """End what this incarnation started."""
        self._tools.close()
        self._model.close()
