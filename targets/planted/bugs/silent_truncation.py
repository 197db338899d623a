"""A damaged line of the log is skipped."""

from __future__ import annotations

import json

from chaos.targets.planted.catch import TICKET, Catch
from chaos.targets.planted.driver import Driver, Kept
from chaos.targets.reference.history import lines

CATCH = Catch(
    f"corrupt_delta@{TICKET}/after_commit",
    "corruption",
    "silent damage: truncate",
    fault={"kind": "corrupt_delta", "how": "truncate", "which": "first"},
    breaks=frozenset({"state", "goal", "files"}),  # the first line has the rows that the report counts
)


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
