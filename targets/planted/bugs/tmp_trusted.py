"""A temporary file is taken for still there."""

from __future__ import annotations

from pathlib import Path

from chaos.targets.planted.catch import PAYMENT, Catch
from chaos.targets.planted.driver import Driver

CATCH = Catch(
    f"evict@{PAYMENT}/before_think",
    "files",
    "tmp/control-sum is missing",
    fault={"kind": "evict", "grace": "0s"},
)


class TmpTrusted(Driver):
    """Leaves TMPDIR out of its snapshots and goes on as if what it kept there were there.

    In real agents: tested by restarting a process, where /tmp survives; a rescheduled pod has an empty one.
    Exposed by `evict` after something was kept in a temporary file. Must be caught by `files` (missing).
    """

    def folders(self) -> dict[str, Path]:
        return {"workspace": self.zones.workspace}
