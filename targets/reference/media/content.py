"""Snapshots in an ordinary folder, by the content of the files: for everybody, on every file system.

objects/DIGEST     the content of every version of every file
trees/STEP         the tree of each step, compressed, behind its checksum
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from chaos.targets.reference.agent import canonical
from chaos.targets.reference.media import drop_after, taken
from chaos.targets.reference.snapshot import CorruptStore, Snapshots, Tree

FAST = 1  # a tree of 500 files shrinks to a third in 2 ms; the next level costs more than it saves


class Content:
    """A content store below *store* for the *folders* (name to path); it needs no host and no rights.

    Hard links come back as files of their own; devices, sockets and pipes do not come back.
    """

    def __init__(self, store: Path, folders: Mapping[str, Path]) -> None:
        self._store = store
        self._snapshots = Snapshots(store / "objects", folders)
        self._written = 0
        (store / "trees").mkdir(exist_ok=True)

    def take(self, step: int) -> None:
        """Store what is new in the folders, then their tree."""
        body = zlib.compress(canonical(list(self._snapshots.take().items())), FAST)
        fresh = self._store / "tree.new"
        with open(fresh, "wb") as file:
            file.write(_checksum(body) + body)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(self._place(step))
        self._written += len(body)

    def restore(self, step: int) -> None:
        """Put back what differs from the tree of *step*; see the protocol for what it raises."""
        tree = self._tree(step)
        drop_after(step, self.steps(), self.drop)
        self._snapshots.restore(tree)

    def steps(self) -> list[int]:
        """Return the numbers of the snapshots, in order."""
        return taken(self._store / "trees")

    def drop(self, step: int) -> None:
        """Forget the tree, and the contents that no other tree has."""
        others = [self._digests(other) for other in self.steps() if other != step]
        unused = self._digests(step).difference(*others)
        self._place(step).unlink()
        for digest in unused:
            (self._store / "objects" / digest).unlink(missing_ok=True)

    def stored_bytes(self) -> int:
        """Return the sizes of all files of the store; the messages are not in it."""
        return sum(path.stat().st_size for path in self._store.rglob("*") if path.is_file())

    def written_bytes(self, agent: int) -> int:
        """Return the bytes written into the store by this object: the agent's own account holds them all."""
        return max(0, self._written + self._snapshots.written - agent)

    def close(self) -> None:
        """Do nothing: nothing was opened."""

    def _place(self, step: int) -> Path:
        return self._store / "trees" / str(step)

    def _digests(self, step: int) -> set[str]:
        return {entry["digest"] for entry in self._tree(step).values() if "digest" in entry}

    def _tree(self, step: int) -> Tree:
        place = self._place(step)
        if not place.exists():
            raise CorruptStore(f"there is no snapshot of step {step}")
        data = place.read_bytes()
        if data[: len(_checksum(b""))] != _checksum(body := data[len(_checksum(b"")) :]):
            raise CorruptStore(f"the tree of step {step} is damaged")
        return dict(json.loads(zlib.decompress(body)))


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).digest()
