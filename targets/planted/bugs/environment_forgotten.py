"""The shell comes back bare."""

from __future__ import annotations

from chaos.targets.planted.catch import COMMIT, Catch
from chaos.targets.planted.driver import Driver
from chaos.targets.reference.agent import State

CATCH = Catch(f"kill@{COMMIT}/before_think", "environment", "REPORT_QUARTER is not set")


class EnvironmentForgotten(Driver):
    """Starts its shell again without the variables that it had set there.

    In real agents: the files are in the snapshot, so all seems to be there; what `export` did lived in the shell.
    Exposed by `kill` once variables are set. Must be caught by `environment` (not set).
    """

    def recover(self, state: State) -> None:
        self.tools.recover({**state["session"], "environment": {}})
