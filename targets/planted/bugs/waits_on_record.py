"""The wait for the model is written down as a step."""

from __future__ import annotations

from chaos.targets.planted.catch import LAST, STEPS, Catch
from chaos.targets.planted.driver import Driver, Kept
from chaos.targets.reference.agent import Completion, State, fold
from chaos.world import Message

CATCH = Catch(
    f"told_to_wait:requests=1@{LAST}/before_think+kill@{LAST}/before_think",  # while it waits
    "state",
    f"attempt 2 resumed at step {STEPS} with a state that the reference had not there",
    fault={
        "kind": "rate_limit",
        "name": "told_to_wait",
        "requests": 2,
        "retry_after": "300ms",
        "then": [{"kind": "kill"}],
    },
)

NOTE = Message(role="assistant", content="The provider asked for a pause. I go on when it is over.")


class WaitsOnRecord(Driver):
    """Told to wait, records a remark in the place of the answer, and takes it back when the answer has come.

    In real agents: `history.append("rate limited, retrying"); save(history)` in the handler of a 429, so that users
    see why nothing happens, and `history.pop()` behind it. Who resumes from that finds a last word, and nothing to do.
    Exposed by `rate_limit` at any step and `kill` while it waits, at `before_think` of the same step; either alone is
    harmless. The smallest plan, of one refused request: `rate_limit@0/before_think+kill@0/before_think`.
    Must be caught by `state` (resumed with a turn that there never was).
    """

    remarked = False

    def ask(self, number: int, state: State) -> Completion:
        before = self.read()
        reply = super().ask(number, state)
        if self.remarked:
            self._take_back(number, before)
        return reply

    def again(self, number: int, state: State) -> None:
        if not self.remarked:
            self.remarked = True
            self._record(number, fold(state, Completion(NOTE, 0), []))
        super().again(number, state)

    def _record(self, number: int, state: State) -> None:
        self._append(state["messages"])
        kept = Kept(
            goal=state["goal"],
            steps=state["steps"],
            tokens=state["tokens"],
            session=state["session"],
            tree=self.snapshots.take(),
            lines=self._lines,
            digest=self._digest.hexdigest(),
        )
        self.save(self.place(number), kept, lambda: None)

    def _take_back(self, number: int, before: Kept | None) -> None:
        self.remarked = False
        if before is None:
            self.place(number).unlink()
        else:
            self.save(self.place(number), before, lambda: None)
        self._open_log(before)
