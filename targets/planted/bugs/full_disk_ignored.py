"""A commit for which there is no room is left out."""

from __future__ import annotations

import contextlib

from chaos.targets.planted.catch import LAST, Catch
from chaos.targets.planted.driver import Driver
from chaos.targets.reference.agent import State

CATCH = Catch(
    f"disk_full@{LAST}/after_act",
    "state",
    "the state read back by another process differs",
    fault={"kind": "disk_full"},
)


class FullDiskIgnored(Driver):
    """Goes on when a commit fails: the next one will cover it.

    In real agents: `except OSError: log.warning("could not save, continuing")`.
    Exposed by `disk_full` before the last commit, which no other one covers. Must be caught by `state` (the state read
    back differs).
    """

    def commit(self, number: int, state: State) -> None:
        with contextlib.suppress(OSError):
            super().commit(number, state)
