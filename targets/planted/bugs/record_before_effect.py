"""The call is recorded before it is made."""

from __future__ import annotations

from chaos.targets.planted.catch import TICKET, Catch
from chaos.targets.planted.driver import Driver, Kept
from chaos.targets.reference.agent import Completion, State, fold, turns

CATCH = Catch(
    f"kill@{TICKET}/after_commit",
    "effects",
    f"tickets.create never happened (step {TICKET})",
    # the made-up result is in every prompt and in the report, and what its step cost was to be counted with it
    breaks=frozenset({"goal", "files", "state", "budget"}),
)


class RecordBeforeEffect(Driver):
    """Commits when the model has answered, acts afterwards: a kill in between, and the call is never made.

    In real agents: the reply is saved as soon as it is there, and since providers refuse a call without a result, a
    resume patches the history with a made-up one. The model takes it for done.
    Exposed by `kill` at `after_commit` of a call with an effect. Must be caught by `effects` (never happened).
    """

    def step(self, state: State) -> State:
        number = turns(state)
        reply = self.ask(number, state)
        self.commit(number, {**state, "messages": [*state["messages"], reply.message]})
        return fold(state, reply, self.act(number, reply))

    def remembered(self, kept: Kept) -> State:
        state = super().remembered(kept)
        *before, last = state["messages"]
        made_up = ["done" for _ in last.get("tool_calls", [])]
        return fold({**state, "messages": before}, Completion(last, 0), made_up)
