"""The messages have one checkpoint, the files have another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from chaos.targets.planted.catch import KEEP, Catch
from chaos.targets.planted.driver import Driver, Kept

FILES = "files.json"

CATCH = Catch(f"kill@{KEEP}/during_commit", "files", "tmp/control-sum is missing")


class FilesBehindMessages(Driver):
    """Records the messages first and the files in a second file: a kill in between, and older files are put back.

    In real agents: the conversation in a database, the workspace in a volume snapshot, each saved "at the end of the
    step". The file that the last step wrote is there, and the restore of the older snapshot removes it.
    Exposed by `kill` at `during_commit` of a step that wrote a file. Must be caught by `files` (missing).
    """

    def save(self, path: Path, kept: Kept, between: Callable[[], None]) -> None:
        super().save(path, kept, lambda: None)
        between()
        super().save(self.zones.durable / FILES, kept, lambda: None)

    def read(self) -> Kept | None:
        kept, files = super().read(), self.zones.durable / FILES
        if kept is not None:
            kept["tree"] = json.loads(files.read_bytes())["tree"] if files.exists() else {}
        return kept
