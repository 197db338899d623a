"""A sync that fails is ignored."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from chaos.targets.planted.catch import TICKET, Catch
from chaos.targets.planted.driver import Driver, Kept
from chaos.targets.reference.history import Log

CATCH = Catch(
    f"io_error@{TICKET}/after_act+power_loss@{TICKET}/after_commit",  # the next step's would make up for it
    "finishes",
    "CorruptStore: both copies of history.jsonl are damaged",
    fault={"kind": "io_error", "times": 2, "then": [{"kind": "power_loss"}]},
    verdict="refused",
)


class Optimistic(Log):
    """A log that syncs, and takes no for an answer."""

    def append(self, line: bytes, between: Callable[[], None] | None = None) -> None:
        os.write(self._file, line + b"\n")
        with contextlib.suppress(OSError):
            os.fsync(self._file)


class FsyncIgnored(Driver):
    """Goes on when the log's fsync fails, as if it had not been asked for.

    In real agents: `try: os.fsync(fd) except OSError: pass`, for the file systems on which it is not supported.
    Exposed by `io_error` on an fsync, and `power_loss` before the next one. Must be caught by `finishes` (refused to
    resume: the checkpoint counts a line that is not there).
    """

    def _open_log(self, kept: Kept | None) -> None:
        super()._open_log(kept)
        self._logs = [Optimistic(folder) for folder in self.copies]
