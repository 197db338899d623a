"""An error on resume ends as a success."""

from __future__ import annotations

import sys

from chaos.targets.planted.catch import COMMIT, Catch
from chaos.targets.planted.driver import Driver

CATCH = Catch(
    f"kill@{COMMIT}/before_think+rate_limit@recovery/after_load",
    "finishes",
    "exited with status 0 and was not done",
    fault={
        "kind": "kill",
        "then": [
            {
                "kind": "rate_limit",
                "requests": 9,
                "retry_after": "1ms",
                "at": {"during": "recovery", "phase": "after_load"},
            }
        ],
    },
    breaks=frozenset({"effects", "state"}),
)


class ExitsZero(Driver):
    """Prints a warning for any error and ends with 0: the supervisor takes the job for done and never tries again.

    In real agents: a broad `except` around main, so that "the logs are clean".
    Exposed by a `kill` and, while it recovers, more refusals by the provider than it has retries. Must be caught by
    `finishes` (exited with status 0 and was not done).
    """

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:
            print(f"warning: could not go on: {error}", file=sys.stderr)
