"""Snapshots of subvolumes of a btrfs in a file: the file system's own, made in the time of one commit."""

from __future__ import annotations

import fcntl
import os
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.sandbox.mounts import Image, command, sync, undone
from chaos.targets.reference.media import FOLDERS, STEPS, drop_after, places, taken
from chaos.targets.reference.media.copies import Copies
from chaos.targets.reference.media.mounts import lacking
from chaos.targets.reference.media.reflink import clear
from chaos.targets.reference.snapshot import CorruptStore

if TYPE_CHECKING:
    from chaos.sandbox import Zones

# linux/btrfs.h: _IOW(0x94, 23 | 24, struct btrfs_ioctl_vol_args_v2), _IOW(0x94, 15, struct btrfs_ioctl_vol_args)
SNAP_CREATE, SUBVOL_CREATE, SNAP_DESTROY = 0x50009417, 0x50009418, 0x5000940F
READ_ONLY = 2  # BTRFS_SUBVOL_RDONLY
ROOT_INODE = 256  # BTRFS_FIRST_FREE_OBJECTID: the inode number of every subvolume's top folder, and of nothing else
USED = re.compile(r"^(?:Data|Metadata|System),.* used=(\d+)$", re.MULTILINE)
# One copy of data and metadata: what a device keeps a second time against its own errors is not the strategy's tax.
MKFS = ("mkfs.btrfs", "-q", "--metadata", "single", "--data", "single")


class Btrfs:
    """The whole sandbox is on the image; workspace and tmp are subvolumes, each snapshot is another two."""

    def __init__(self, zones: Zones) -> None:
        self._zones = zones
        self._steps = zones.root / STEPS
        self._dropped = False
        self._image = Image(zones.root.parent / "btrfs.img", zones.root, MKFS)
        with undone(self.close):
            for folder in (self._steps, zones.durable, zones.assets):
                folder.mkdir()
            for _, place in places(zones):
                _subvolume(SUBVOL_CREATE, place)
            self._empty = self._used()

    @staticmethod
    def missing() -> str:
        """Return what is missing."""
        return lacking("btrfs", "mkfs.btrfs", "btrfs", "losetup")

    def take(self, step: int) -> None:
        """Take a read-only snapshot of both subvolumes: the system call writes back their data and commits."""
        target = self._steps / str(step)
        target.mkdir()
        for name, place in places(self._zones):
            if _is_subvolume(place):
                _subvolume(SNAP_CREATE, target / name, place, READ_ONLY)
            else:  # the agent removed it and made a folder anew: there is nothing to take a snapshot of
                _subvolume(SUBVOL_CREATE, target / name)
                if place.is_dir() and not place.is_symlink():
                    Copies().take(place, target / name)
        sync(target)

    def restore(self, step: int) -> None:
        """Put a writable snapshot of the snapshot into each folder's place; see the protocol for what it raises."""
        source = self._steps / str(step)
        if not all(_is_subvolume(source / name) for name in FOLDERS):
            raise CorruptStore(f"there is no snapshot of step {step}")
        drop_after(step, self.steps(), self.drop)
        self._dropped = True
        for name, place in places(self._zones):
            _remove(place)
            _subvolume(SNAP_CREATE, place, source / name)

    def steps(self) -> list[int]:
        """Return the numbers of the snapshots, in order."""
        return taken(self._steps)

    def drop(self, step: int) -> None:
        """Delete the snapshots; the file system gives back their blocks in its own time, or when it is asked to."""
        self._dropped = True
        for name in FOLDERS:
            _remove(self._steps / str(step) / name)
        (self._steps / str(step)).rmdir()

    def stored_bytes(self) -> int:
        """Return the bytes of data and metadata in use since the image was empty, deleted snapshots given back.

        Messages, snapshots, assets, and what the live folders do not share with a snapshot.
        """
        if self._dropped:
            command("btrfs", "filesystem", "sync", self._zones.root)  # wakes the cleaner, which comes every 30 s else
            command("btrfs", "subvolume", "sync", "-s", "1", self._zones.root)
            self._dropped = False
        return max(0, self._used() - self._empty)

    def written_bytes(self, agent: int) -> int:
        """Return the bytes that the image's loop device was given to write, live folders included, less *agent*."""
        return max(0, self._image.written_bytes() - agent)

    def close(self) -> None:
        """Unmount the image and remove it."""
        self._image.close()

    def _used(self) -> int:
        sync(self._zones.root)
        shown = command("btrfs", "filesystem", "df", "--raw", self._zones.root)
        return sum(int(used) for used in USED.findall(shown))


def _is_subvolume(place: Path) -> bool:
    return place.is_dir() and not place.is_symlink() and place.stat().st_ino == ROOT_INODE


def _subvolume(request: int, place: Path, source: Path | None = None, flags: int = 0) -> None:
    """Make the subvolume *place*: an empty one, or a snapshot of *source*."""
    descriptor = os.open(source, os.O_RDONLY | os.O_DIRECTORY) if source else 0
    try:
        arguments = struct.pack("qQQ32x4040s", descriptor, 0, flags, os.fsencode(place.name))
        _control(place.parent, request, arguments)
    finally:
        if source:
            os.close(descriptor)


def _remove(place: Path) -> None:
    if _is_subvolume(place):
        _control(place.parent, SNAP_DESTROY, struct.pack("q4088s", 0, os.fsencode(place.name)))
    else:
        clear(place)


def _control(folder: Path, request: int, arguments: bytes) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(descriptor, request, bytearray(arguments))  # bytes may not be longer than 1024
    finally:
        os.close(descriptor)
