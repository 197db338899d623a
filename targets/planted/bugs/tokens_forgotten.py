"""The count of tokens starts again with every incarnation."""

from __future__ import annotations

from chaos.targets.planted.catch import COMMIT, Catch
from chaos.targets.planted.driver import Driver, Kept
from chaos.targets.reference.agent import State

CATCH = Catch(
    f"kill@{COMMIT}/after_commit",
    "budget",
    "tokens were forgotten: the agent counts 0 tokens at turn 10 (attempt 2)",
    breaks=frozenset({"state"}),  # the counters are part of it
)


class TokensForgotten(Driver):
    """Keeps its steps and forgets its tokens: a cap on costs is a cap on what each incarnation costs.

    In real agents: usage is added up by a callback of the model client, which is made anew; the checkpoint has the
    graph's state only.
    Exposed by `kill` at any point after the first commit. Must be caught by `budget` (tokens).
    """

    def remembered(self, kept: Kept) -> State:
        return {**super().remembered(kept), "tokens": 0}
