"""Captures of zones: what was in them at many instants of one run, kept incrementally and put back."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from chaos.capture.blocks import Blocks
from chaos.capture.mirror import Look, Mirror
from chaos.capture.paths import Stamps
from chaos.capture.restore import restore
from chaos.capture.tree import Node

GONE = "gone"
"""Stands for the digest of a zone that is not there."""


@dataclass(frozen=True)
class Capture:
    """All that is in the zones at one instant.

    Args:
        number: counts from 0.
        digests: zone to the digest of everything in it that an agent can see: paths, kinds, permission bits, targets of
            links, contents; not times, inodes, owners, which names are of one file, or what the index of a SQLite log
            (`-shm`) holds, which nobody reads who opens the database.
        trees: zone to what is in it; None: the zone is gone. Captures share what they have in common.
    """

    number: int
    digests: Mapping[str, str]
    trees: Mapping[str, Node | None] = field(repr=False, compare=False)


class Shelf:
    """Captures of the same zones, in which somebody else works, but not while one of these methods does.

    Kept are paths, kinds, permission bits, contents, times of change, targets of links, and which names in the zones
    are of one file. Not kept are owners, access times, extended attributes and access lists, and small holes in files,
    which are filled. A name outside of the zones is no longer of the same file once that was put back. Further names of
    links, FIFOs and sockets become links, FIFOs and sockets of their own. A socket is put back as a name that nobody
    listens on, as a killed process leaves it; to put a device back takes root.

    What has changed is told by time stamps, and where these cannot tell, by reading. A store into a mapped file shows
    when the kernel notices it, at the first one after each write-back, in a tmpfs never: such files are to be named to
    `take`, and are read at every call from then on. One that is mapped, changed and unmapped between two calls is
    missed in a tmpfs.

    Args:
        zones: name to folder; none is in another. One that is a symbolic link now is where that points.
        folder: empty, and ours; what is kept goes into files without a name there, which are gone when we are.
    """

    def __init__(self, zones: Mapping[str, Path], folder: Path) -> None:
        places = {name: os.path.realpath(zone) for name, zone in zones.items()}
        _apart({**places, "what is kept": os.path.realpath(folder)})
        self.root = Path(os.path.commonpath([os.path.dirname(place) for place in places.values()]))
        self._blocks = Blocks(folder)
        where = {name: os.fsencode(place) for name, place in places.items()}
        self._mirror = Mirror(where, self._blocks, Stamps(folder))
        self._last: Capture | None = None
        self._taken = 0

    @property
    def kept_bytes(self) -> int:
        """What all captures together take on disk."""
        return self._blocks.kept_bytes

    @property
    def read_bytes(self) -> int:
        """How much of the zones' files was read until now."""
        return self._blocks.read_bytes

    def take(self, mapped: Collection[Path] = ()) -> Capture:
        """Capture what is in the zones now, where everything stands still.

        Args:
            mapped: files that a process has mapped so that what it writes goes into them.
        """
        trees = self._mirror.look(Look.KEEP, [os.fsencode(path) for path in mapped])
        last, number = self._last, self._taken
        if last is not None and all(node is last.trees[name] for name, node in trees.items()):
            self._last = Capture(number, last.digests, last.trees)
        else:
            self._last = Capture(number, MappingProxyType(_digests(trees)), MappingProxyType(trees))
        self._taken += 1
        return self._last

    def current(self, mapped: Collection[Path] = ()) -> Mapping[str, str]:
        """Return the digests of what is in the zones now, as in a `Capture`. Nothing of it is kept for good."""
        return _digests(self._mirror.look(Look.COMPARE, [os.fsencode(path) for path in mapped]))

    def put_back(self, capture: Capture) -> int:
        """Make the zones what they were at *capture*, nobody working in them; return the bytes of contents written.

        Raises:
            OSError: somebody works in them still, the disk is full, or what was made by root is to be made by another.
                Nothing is known of the zones then, and the next call reads all of them.
        """
        try:
            self._mirror.look(Look.GLANCE)
            written = restore(self._mirror, capture.trees)
        except BaseException:
            self._mirror.forget()
            raise
        self._mirror.aside = False
        self._blocks.forget_aside()
        return written

    def close(self) -> None:
        """Give up all captures."""
        self._blocks.close()


def _digests(trees: Mapping[str, Node | None]) -> dict[str, str]:
    return {name: GONE if node is None else node.digest.hex() for name, node in trees.items()}


def _apart(places: Mapping[str, str]) -> None:
    """Raise ValueError if one of *places* is in another one."""
    for name, place in places.items():
        for other, around in places.items():
            if name != other and os.path.commonpath([place, around]) == around:
                raise ValueError(f"{name} ({place}) is in {other} ({around}): they must be folders beside one another")
