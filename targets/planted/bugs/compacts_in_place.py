"""The log is compacted in its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chaos.targets.planted.catch import Catch
from chaos.targets.planted.driver import Driver, Kept
from chaos.targets.reference.history import FILE

EVERY = 8  # lines

CATCH = Catch(
    f"kill@{EVERY - 1}/during_commit",  # the eighth checkpoint, and no other point
    "finishes",
    "both copies of history.jsonl are",
    verdict="refused",
)


class CompactsInPlace(Driver):
    """With every eighth checkpoint reads the log, cuts it to nothing, and writes it again without its slack.

    In real agents: housekeeping that runs seldom (`VACUUM`, a log rotation, a rewrite of the history every so many
    messages), and was written for the day, not for the crash. The checkpoint that counts those lines is still there.
    Exposed by `kill` at `during_commit` of one step, the one with that checkpoint, and at no other point. The smallest
    plan: `kill@7/during_commit`. Must be caught by `finishes` (refused to resume).
    """

    def save(self, path: Path, kept: Kept, between: Callable[[], None]) -> None:
        if kept["lines"] % EVERY:
            super().save(path, kept, between)
            return
        logs = [folder / FILE for folder in self.copies]
        compact = [log.read_bytes() for log in logs]
        for log in logs:
            log.write_bytes(b"")
        between()
        for log, data in zip(logs, compact, strict=True):
            log.write_bytes(data)
        super().save(path, kept, lambda: None)
