"""The half of the `cow` strategy that is outside the sandbox: it takes snapshots while the agent stands still."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.targets.reference import manifest
from chaos.targets.reference.media import START, Medium, bound
from chaos.targets.reference.snapshot import CorruptStore

if TYPE_CHECKING:
    from chaos.host import Report
    from chaos.sandbox import Sandbox


class Outside:
    """Keeps a snapshot of each step on *medium*, and puts back that of the newest complete step before a restart.

    Args:
        keep: how many complete steps have a snapshot at most; 0: all.
    """

    def __init__(self, medium: Medium, sandbox: Sandbox, report: Report, keep: int) -> None:
        self._medium, self._sandbox, self._report, self._keep = medium, sandbox, report, keep
        self._durable = sandbox.zones.durable
        self._agents: dict[int, int] = {}  # process to the bytes that it had written when it last stood still
        self._seconds: list[float] = []

    @property
    def tied(self) -> str:
        """What the snapshots are bound to: mounts, or names of files that they share with what lives."""
        name = type(self._medium).__name__.lower()
        return f"{name} snapshots are a part of the file system that they were taken on, beside the zones"

    def starting(self, attempt: int) -> None:
        """Take the first snapshot, or restore the newest complete one; a damaged manifest is left for the agent to see.

        What comes after a complete step is dropped: it will be done again.
        """
        if attempt == 1:
            manifest.folder(self._durable).mkdir(exist_ok=True)
            self._medium.take(START)
            return
        began = time.monotonic()
        try:
            newest = manifest.newest(self._durable)
            step = START if newest is None else newest
            self._medium.restore(step)
        except CorruptStore as error:
            self._report("restore", {"error": str(error)})
        else:
            self._report("restore", {"step": step, "seconds": round(time.monotonic() - began, 4)})

    def standing(self, phase: str, step: int) -> None:
        """Take the snapshot of *step* when its messages are stored and its manifest is not."""
        if self._sandbox.pid:
            self._agents[self._sandbox.pid] = self._sandbox.written_bytes()
        if phase == "during_commit":
            self._take(step)
        elif phase == "finished":
            self._report("snapshots", {"taken": len(self._seconds), "seconds": round(sum(self._seconds), 4)})

    def asked(self, turn: int) -> None:
        """Do nothing: a snapshot belongs to a step that is over."""

    def stored_bytes(self) -> int:
        """Return what the medium says."""
        return self._medium.stored_bytes()

    def written_bytes(self) -> int:
        """Return what the medium says, beyond what the agent's incarnations had written where they were last seen."""
        return self._medium.written_bytes(sum(self._agents.values()))

    def close(self) -> None:
        """Undo what the medium mounted and started."""
        self._medium.close()

    def _take(self, step: int) -> None:
        began = time.monotonic()
        self._medium.take(step)
        bound(self._medium, self._keep)
        _place(self._durable).write_text(str(step))
        self._seconds.append(time.monotonic() - began)


def taken(durable: Path) -> int | None:
    """Return the step of the newest snapshot; None if none was taken."""
    return int(_place(durable).read_text()) if _place(durable).exists() else None


def _place(durable: Path) -> Path:
    """Return the file by which the agent learns it."""
    return manifest.folder(durable) / "taken"
