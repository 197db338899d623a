"""The log is written and not synced."""

from __future__ import annotations

import os
from collections.abc import Callable

from chaos.targets.planted.catch import COMMIT, Catch
from chaos.targets.planted.driver import Driver, Kept
from chaos.targets.reference.history import Log

CATCH = Catch(
    f"power_loss@{COMMIT}/after_commit",
    "finishes",
    "CorruptStore: both copies of history.jsonl are damaged",
    fault={"kind": "power_loss"},
    verdict="refused",
)


class Unsynced(Log):
    """A log whose lines are in the page cache, for as long as there is power."""

    def append(self, line: bytes, between: Callable[[], None] | None = None) -> None:
        os.write(self._file, line + b"\n")


class NoFsync(Driver):
    """Syncs the checkpoint, and not the log that it counts the lines of.

    In real agents: `open(path, "a").write(...)`; no kill of a process ever showed it, for the kernel has the data.
    Exposed by `power_loss` after some commits. Must be caught by `finishes` (refused to resume: the lines are gone).
    """

    def _open_log(self, kept: Kept | None) -> None:
        super()._open_log(kept)
        self._logs = [Unsynced(folder) for folder in self.copies]
