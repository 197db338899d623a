"""A checkpoint is written for every fifth step."""

from __future__ import annotations

from chaos.targets.planted.catch import LATE_MAIL, Catch
from chaos.targets.planted.driver import Driver
from chaos.targets.reference.agent import State, done

EVERY = 5  # steps

CATCH = Catch(
    f"kill@{LATE_MAIL}/before_act",
    "recovery",
    "3 steps lost by a crash; allowed: 1",
    verdict="recovered with loss",
)


class SavesSeldom(Driver):
    """Commits every fifth step and the last one: a crash costs up to five steps, and what they cost is paid again.

    In real agents: `if step % 5 == 0: save()`, because each checkpoint has all of the conversation in it and writing it
    became slow.
    Exposed by `kill` three steps after a commit. Must be caught by `recovery` (steps lost).
    """

    def commit(self, number: int, state: State) -> None:
        if done(state) or not (number + 1) % EVERY:
            super().commit(number, state)
