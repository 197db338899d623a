"""The checkpoint is written over the old one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from chaos.targets.planted.catch import COMMIT, Catch
from chaos.targets.planted.driver import Driver, Kept

CATCH = Catch(f"kill@{COMMIT}/during_commit", "finishes", "refused to resume", verdict="refused")


class CheckpointInPlace(Driver):
    """Opens the one checkpoint for writing and writes: a kill meanwhile leaves neither the old one nor the new one.

    In real agents: `json.dump(state, open(path, "w"))`, which cuts the file to nothing first.
    Exposed by `kill` at `during_commit`. Must be caught by `finishes` (refused to resume).
    """

    def save(self, path: Path, kept: Kept, between: Callable[[], None]) -> None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(kept, file)
            between()
