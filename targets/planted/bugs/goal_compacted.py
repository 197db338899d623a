"""Compaction throws the oldest messages away, and the goal is the oldest."""

from __future__ import annotations

from chaos.targets.planted.catch import COMMIT, Catch
from chaos.targets.planted.driver import Driver
from chaos.targets.reference.agent import OPENING, Request, State

CATCH = Catch(
    f"context_overflow@{COMMIT}/before_think",
    "goal",
    f"the prompt of turn {COMMIT} (attempt 1) carries no goal",
    fault={"kind": "context_overflow"},
    breaks=frozenset({"finishes"}),  # without a goal the model has no answer
    verdict="refused",
    options={"workload": "long_notes"},
    volatile=("$.tokens",),  # shorter prompts cost less
)


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
