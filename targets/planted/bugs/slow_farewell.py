"""The last words take longer than the grace."""

from __future__ import annotations

import json
import time

from chaos.targets.planted.catch import COMMIT, Catch
from chaos.targets.planted.driver import Driver

DRAIN_SECONDS = 30.0  # what web servers take to let their requests end; Kubernetes' own default for all of it

CATCH = Catch(
    f"kill@{COMMIT}/before_think",
    "finishes",
    "refused to resume: json.decoder.JSONDecodeError",
    fault={"kind": "kill", "signal": "SIGTERM", "grace": "1s"},
    verdict="refused",
)


class SlowFarewell(Driver):
    """Asked to end, begins to write a last checkpoint over the old one, and lets its connections drain meanwhile.

    In real agents: a SIGTERM handler that "saves everything before we go", with no look at the time that there is. The
    grace ends, SIGKILL comes, and half a checkpoint is what is left.
    Exposed by `kill` with `signal: SIGTERM`, or by `evict`, at any point after the first commit; SIGKILL alone is
    harmless. Must be caught by `finishes` (refused to resume).
    """

    def run(self) -> None:
        try:
            super().run()
        except SystemExit:
            kept = json.dumps(self.read())
            with open(self.place(0), "w", encoding="utf-8") as file:
                file.write(kept[: len(kept) // 2])
                file.flush()
                time.sleep(DRAIN_SECONDS)
                file.write(kept[len(kept) // 2 :])
            raise
