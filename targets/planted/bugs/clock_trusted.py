"""The newest checkpoint by the wall clock is not the newest."""

from __future__ import annotations

import time
from pathlib import Path

from chaos.targets.planted.catch import COMMIT, Catch
from chaos.targets.planted.driver import Driver

CATCH = Catch(
    f"clock_jump@{COMMIT}/after_commit",
    "state",
    "the state read back by another process differs",
    fault={"kind": "clock_jump", "direction": "back", "seconds": "1h"},
)


class ClockTrusted(Driver):
    """Names each checkpoint by the time that it was written, and takes the greatest name for the newest.

    In real agents: `ORDER BY created_at DESC LIMIT 1`, or identifiers that begin with a time stamp (UUIDs of version 6
    or 7, ULIDs). NTP, a new node or a wrong time zone set the clock back, and what follows is never seen again.
    Exposed by `clock_jump` backwards. Must be caught by `state` (what another process reads back).
    """

    def place(self, number: int) -> Path:
        return self.zones.durable / f"checkpoint-{time.time_ns():020}.json"

    def newest(self) -> Path | None:
        return max(self.zones.durable.glob("checkpoint-*.json"), default=None)
