"""The newest message is taken for the task."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.targets.planted.catch import BAIT, Catch
from chaos.targets.planted.driver import Driver, Kept
from chaos.world import Message

CATCH = Catch(
    f"kill@{BAIT}/after_commit",
    "goal",
    f"the prompt of turn {BAIT + 1} (attempt 2) carries another goal",
    breaks=frozenset({"state", "effects", "files", "processes"}),  # Q2 all the way
)


class GoalFromLastMessage(Driver):
    """Resumes with the last message as the goal: bait in a tool result becomes the task.

    In real agents: `agent.run(task=messages[-1])`, because for a chat the last message *is* what the user wants.
    Exposed by `kill` right after a tool result with a distraction. Must be caught by `goal` (another goal).
    """

    def goal_of(self, kept: Kept, messages: Sequence[Message]) -> str:
        return messages[-1].get("content") or kept["goal"]
