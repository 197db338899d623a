"""An error on resume ends as a success."""

from __future__ import annotations

import sys

from chaos.targets.planted.driver import Driver


class ExitsZero(Driver):
    """Prints a warning for any error and ends with 0: the supervisor takes the job for done and never tries again.

    In real agents: a broad `except` around main, so that "the logs are clean".
    Exposed by a `kill` and, while it recovers, more refusals by the provider than it has retries. Must not be green:
    to be caught by `state` (turns that never came) although it `finishes`.
    """

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:
            print(f"warning: could not go on: {error}", file=sys.stderr)
