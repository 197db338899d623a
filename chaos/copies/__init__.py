"""Copies of all that outlives the container, taken after each commit of a run: what a backup would have."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from chaos.copies import files, postgres, redis
from chaos.durable import Durable, Lease


class _Kind(Protocol):
    """A module that knows one kind of server."""

    def take(self, lease: Lease, target: Path) -> None:
        """Copy what *lease* has into the empty folder *target*; as it is at one moment."""
        ...

    def put_back(self, lease: Lease, source: Path) -> None:
        """Make *lease* what was copied to *source*."""
        ...


SERVERS: Mapping[str, _Kind] = {"postgres": postgres, "redis": redis}
"""The servers whose parts can be copied and put back while they run."""


class Copies:
    """The copies of *durable* after the newest commits, as many as it takes to go *depth* commits back.

    Args:
        folder: for the copies, an empty one.
    """

    def __init__(self, durable: Durable, folder: Path, depth: int) -> None:
        self._durable, self._folder, self._depth = durable, folder, depth
        self._kept: deque[Path] = deque()
        self._taken = 0

    def take(self) -> None:
        """Copy what is there now. The agent stands still, after a commit."""
        target = self._folder / str(self._taken)
        files.take(self._durable.folder, target / "files")
        for name, lease in self._durable.leases.items():
            (target / name).mkdir()
            SERVERS[name].take(lease, target / name)
        self._taken += 1
        self._kept.append(target)
        if len(self._kept) > self._depth + 1:
            shutil.rmtree(self._kept.popleft())

    def put_back(self, behind: int) -> bool:
        """Make everything what it was *behind* commits before the newest one; False if there were not so many.

        Nothing of the agent runs.
        """
        if len(self._kept) <= behind:
            return False
        source = self._kept[-1 - behind]
        files.put_back(self._durable.folder, source / "files")
        for name, lease in self._durable.leases.items():
            SERVERS[name].put_back(lease, source / name)
        return True
