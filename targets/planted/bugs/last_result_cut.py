"""A conversation that is too long is cut where it ends."""

from __future__ import annotations

from chaos.targets.planted.catch import COMMIT, Catch
from chaos.targets.planted.driver import Driver, Kept
from chaos.targets.reference.agent import State

MAX_CHARS = 2_000  # of all messages together

CATCH = Catch(
    f"kill@{COMMIT}/after_commit",
    "state",
    f"attempt 2 resumed at step {COMMIT + 1} with a state that the reference had not there",
)


class LastResultCut(Driver):
    """Loads a conversation up to a size: where it is longer, the newest tool result has to make room.

    In real agents: `text[:MAX]`, a column that holds so many characters, a limit on what a memory store gives back. The
    living process has it all in memory; who resumes has a call, and no answer to it.
    Exposed by `kill` once the conversation is that long. Must be caught by `state` (resumed with another state).
    """

    def remembered(self, kept: Kept) -> State:
        state = super().remembered(kept)
        *before, last = state["messages"]
        room = MAX_CHARS - sum(len(message.get("content") or "") for message in before)
        if last["role"] != "tool":
            return state
        return {**state, "messages": [*before, {**last, "content": (last.get("content") or "")[: max(0, room)]}]}
