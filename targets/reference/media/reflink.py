"""Snapshots as copies of the tree whose changed files share their blocks with the original (FICLONE)."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from chaos import leftovers
from chaos.sandbox.mounts import Image, sync, undone
from chaos.targets.reference.media import FOLDERS, STEPS, drop_after, places, taken
from chaos.targets.reference.media.copies import Copies
from chaos.targets.reference.media.mounts import blocks, lacking
from chaos.targets.reference.snapshot import FICLONE, CorruptStore

if TYPE_CHECKING:
    from chaos.sandbox import Zones

FREE_EOFBLOCKS = 0x8080583A  # xfs_fs.h: _IOR('X', 58, struct xfs_fs_eofblocks), of version 1
SYNC = 1  # XFS_EOF_FLAGS_SYNC


class Reflink:
    """A tree copy for each step: a clone of each changed file, a second name of each other one.

    On the machine's own file system where that can share blocks, and then without any rights; else on an xfs in a
    file, mounted as the whole sandbox.
    """

    def __init__(self, zones: Zones) -> None:
        self._zones, self._copies = zones, {name: Copies() for name in FOLDERS}
        self._image, beside = None, zones.root.parent
        if not shares(beside):
            self._image = Image(beside / "xfs.img", zones.root, ("mkfs.xfs", "-q", "-K"))
        self._steps = (zones.root if self._image else beside) / STEPS
        with undone(self.close):
            for folder in (self._steps, zones.durable, zones.workspace, zones.tmp, zones.assets):
                folder.mkdir(exist_ok=True)
            self._empty = self._image.used_bytes() if self._image else 0

    @staticmethod
    def missing() -> str:
        """Return what is missing; nothing where the folder for temporary files can share blocks."""
        trial = leftovers.folder("trial-")
        try:
            return "" if shares(trial) else lacking("xfs", "mkfs.xfs", "losetup")
        finally:
            leftovers.remove(trial)

    def take(self, step: int) -> None:
        """Copy the folders, and have it all written back."""
        target = self._steps / str(step)
        target.mkdir()
        for name, place in places(self._zones):
            if place.is_dir() and not place.is_symlink():  # what an agent put in its place is no folder of ours
                self._copies[name].take(place, target / name)
            else:
                (target / name).mkdir()
        sync(target)

    def restore(self, step: int) -> None:
        """Remove the folders and clone them from the copy; see the protocol for what it raises."""
        source = self._steps / str(step)
        if not all((source / name).is_dir() for name in FOLDERS):
            raise CorruptStore(f"there is no snapshot of step {step}")
        drop_after(step, self.steps(), self.drop)
        for name, place in places(self._zones):
            clear(place)
            self._copies[name].put_back(source / name, place)

    def steps(self) -> list[int]:
        """Return the numbers of the snapshots, in order."""
        return taken(self._steps)

    def drop(self, step: int) -> None:
        """Remove the copy; files that others have too keep their other names."""
        shutil.rmtree(self._steps / str(step))

    def stored_bytes(self) -> int:
        """Return the blocks in use since the image was empty: messages, snapshots, assets, unshared live files.

        On the machine's own file system: the blocks of messages and snapshots, in which two versions of a file count
        twice although they may share most of them.
        """
        if self._image is None:
            return blocks(self._zones.durable, self._steps)
        _give_back(self._zones.root)
        return max(0, self._image.used_bytes() - self._empty)

    def written_bytes(self, agent: int) -> int:
        """Return the bytes that the image's loop device was given to write, the live folders' included, less *agent*.

        On the machine's own file system: nothing, since a clone writes no data, and what the file system writes to
        keep account of it cannot be told apart.
        """
        return max(0, self._image.written_bytes() - agent) if self._image else 0

    def close(self) -> None:
        """Unmount the image, if there is one, and remove it."""
        if self._image:
            self._image.close()


def shares(folder: Path) -> bool:
    """Tell whether files in *folder* can share blocks."""
    one, other = folder / ".clone-1", folder / ".clone-2"
    try:
        one.write_bytes(b"x" * 4096)
        with open(one, "rb") as source, open(other, "wb") as target:
            fcntl.ioctl(target.fileno(), FICLONE, source.fileno())
    except OSError:
        return False
    finally:
        one.unlink(missing_ok=True)
        other.unlink(missing_ok=True)
    return True


def _give_back(folder: Path) -> None:
    """Have xfs give back at once what it does later: the blocks of removed files, and those it holds in store."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(descriptor, FREE_EOFBLOCKS, struct.pack("II120x", 1, SYNC))
    finally:
        os.close(descriptor)


def clear(place: Path) -> None:
    """Remove whatever is at *place*."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
