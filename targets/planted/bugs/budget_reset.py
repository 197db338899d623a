"""The budget starts again with every incarnation."""

from __future__ import annotations

from chaos.targets.planted.catch import COMMIT, Catch
from chaos.targets.planted.driver import Driver, Kept
from chaos.targets.reference.agent import State

CATCH = Catch(
    f"kill@{COMMIT}/after_commit",
    "budget",
    f"the budget was reset: the agent counts 0 steps used at turn {COMMIT + 1}",
    breaks=frozenset({"state"}),  # the counters are part of it
)


class BudgetReset(Driver):
    """Counts steps and tokens of this incarnation only: every crash gives the budget back.

    In real agents: `steps = 0` above the loop, or a budget object made in the constructor. An agent that crashes on
    the same step for ever never reaches its cap.
    Exposed by `kill` at any point after the first commit. Must be caught by `budget` (reset).
    """

    def remembered(self, kept: Kept) -> State:
        return {**super().remembered(kept), "steps": 0, "tokens": 0}
