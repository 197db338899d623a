"""A damaged line of the log is skipped."""

from __future__ import annotations

import json

from chaos.targets.planted.driver import Driver, Kept
from chaos.targets.reference.history import lines


class SilentTruncation(Driver):
    """Skips what it cannot parse in its log and goes on with a conversation that has a hole.

    In real agents: `except JSONDecodeError: continue`, meant for the torn last line that a kill may leave.
    Exposed by `corrupt_delta` with `how: truncate`. Must be caught by `corruption` (silent damage).
    """

    def logged(self, kept: Kept) -> list[bytes]:
        return [line for line in lines(self.zones.durable)[: kept["lines"]] if _readable(line)]


def _readable(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
