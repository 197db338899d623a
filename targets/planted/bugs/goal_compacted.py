"""Compaction throws the oldest messages away, and the goal is the oldest."""

from __future__ import annotations

from chaos.targets.planted.driver import Driver
from chaos.targets.reference.agent import OPENING, Request, State


class GoalCompacted(Driver):
    """Makes a prompt that is too long fit by dropping its oldest messages, all but the system's.

    In real agents: a trimmer that keeps the system message and the last N, because the task came as the first message
    of the user. The model goes on with what the newest messages seem to be about.
    Exposed by `context_overflow`. Must be caught by `goal` (carries no goal).
    """

    def shown(self, state: State) -> Request:
        request = super().shown(state)
        if not self.window:
            return request
        messages = request["messages"]
        return {**request, "messages": [*messages[: OPENING - 1], *messages[OPENING:]]}
