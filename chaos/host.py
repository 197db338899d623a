"""The half of a strategy that is outside the sandbox: it sees the agent stand still, and the disk between two lives.

A container runtime, a snapshotting file system or a sidecar is such a half. It is one object for each run, alive
through all incarnations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

Report = Callable[[str, Mapping[str, object]], None]
"""Takes what a host half has to say for the journal: a word for what it did ("snapshot"), and its figures."""


class Host(Protocol):
    """Called by the supervisor, never two methods at once, except `asked`, which comes from the world's threads."""

    @property
    def tied(self) -> str:
        """Why a crash state of the run cannot be taken away and come back to; "" if it can.

        If it can, all that the half goes by is in the zones. Then a new one, made over zones that hold what they held
        at a point of the run, acts from its `starting` with an *attempt* of 2 or more exactly as the one that lived
        through the run: the same is put back, stored and said, and what it has counted goes on from there.
        """
        ...

    def starting(self, attempt: int) -> None:
        """The incarnation *attempt* (from 1) is about to start: nothing of the agent runs; put back what belongs to it.

        The zones exist. (To put a file system under them is the constructor's business: it comes before them.)
        """
        ...

    def standing(self, phase: str, step: int) -> None:
        """The agent has announced the point *step* / *phase* and stands still until this returns."""
        ...

    def asked(self, turn: int) -> None:
        """The agent waits for the model's answer of *turn*; it gets it when this has returned."""
        ...

    def stored_bytes(self) -> int | None:
        """Return what the durable zone takes up on disk where the sizes of its files do not tell; None if they do."""
        ...

    def written_bytes(self) -> int:
        """Return the bytes that this half has written so far, or had written."""
        ...

    def close(self) -> None:
        """Undo everything (mounts, daemons); the agent is gone, the zones are removed afterwards. May come twice."""
        ...
