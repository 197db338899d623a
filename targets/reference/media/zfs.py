"""Snapshots of data sets of a zfs pool in a file: the kernel's zfs where there is one, or zfs-fuse."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.sandbox.mounts import IMAGE_BYTES, SEARCH, SECTOR_BYTES, command, undone, unmount
from chaos.targets.reference.media import FOLDERS, drop_after, places, zfs_fuse
from chaos.targets.reference.media.mounts import blocks, lacking
from chaos.targets.reference.snapshot import CorruptStore

if TYPE_CHECKING:
    from chaos.sandbox import Zones

KERNEL = Path("/dev/zfs")


class Zfs:
    """Workspace and tmp are data sets, of which one command takes snapshots at the same instant.

    Later snapshots are destroyed by a restore, as zfs has it for every rollback.
    """

    def __init__(self, zones: Zones) -> None:
        self._zones, self._taken = zones, list[int]()
        self._folder = zones.root.parent
        self._image = self._folder / "zfs.img"
        self._pool = self._folder.name  # it tells whose it is, as the folder does
        self._daemon = None if KERNEL.exists() else zfs_fuse.start(self._folder)
        with undone(self.close):
            self._create()

    @staticmethod
    def missing() -> str:
        """Return what is missing."""
        if reason := lacking("zfs", "unshare", "nsenter", "findmnt"):
            return reason
        tools = ("zfs", "zpool") if KERNEL.exists() else ("zfs", "zpool", "zfs-fuse")
        absent = [tool for tool in tools if not shutil.which(tool, path=SEARCH)]
        return f"no {absent[0]} on the PATH; apt-get install zfs-fuse, or use snapshots: content" if absent else ""

    def take(self, step: int) -> None:
        """Take a snapshot of both data sets; zfs has it on disk when the command returns."""
        self._run("zfs", "snapshot", "-r", f"{self._pool}/live@{step}")
        self._taken.append(step)

    def restore(self, step: int) -> None:
        """Roll both data sets back, unmounted; see the protocol for what it raises."""
        if step not in self._taken:
            raise CorruptStore(f"there is no snapshot of step {step}")
        for name in FOLDERS:
            self._run("zfs", "umount", f"{self._pool}/live/{name}")
        drop_after(step, self._taken, self.drop)
        for name in FOLDERS:
            self._run("zfs", "rollback", f"{self._pool}/live/{name}@{step}")
            self._run("zfs", "mount", f"{self._pool}/live/{name}")

    def steps(self) -> list[int]:
        """Return the numbers of the snapshots, in order."""
        return sorted(self._taken)

    def drop(self, step: int) -> None:
        """Destroy the snapshots."""
        self._run("zfs", "destroy", "-r", f"{self._pool}/live@{step}")
        self._taken.remove(step)

    def stored_bytes(self) -> int:
        """Return the blocks of the durable zone plus what zfs says that data sets and snapshots use.

        The messages are on the machine's own disk. What live folders do not share with a snapshot is in it as well.
        """
        return blocks(self._zones.durable) + max(0, self._used() - self._empty)

    def written_bytes(self, agent: int) -> int:
        """Return the bytes that zfs-fuse caused to be written, the live folders' included; no account else has them.

        The kernel's zfs keeps no account for a pool: the blocks of the pool's file are the least that was written.
        """
        if self._daemon is None:
            return self._image.stat().st_blocks * SECTOR_BYTES
        lines = Path(f"/proc/{self._daemon.pid}/io").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes:"))

    def close(self) -> None:
        """Destroy the pool, or end the daemon, and remove the file."""
        if self._daemon is None:
            if self._image.exists():
                command("zpool", "destroy", "-f", self._pool)
        else:
            for _, place in places(self._zones):
                unmount(place)
            zfs_fuse.end(self._daemon, self._folder)
        self._image.unlink(missing_ok=True)

    def _create(self) -> None:
        with open(self._image, "xb") as made:
            made.truncate(IMAGE_BYTES)
        self._run("zpool", "create", "-o", "cachefile=none", "-m", "none", self._pool, self._image)
        self._run("zfs", "create", "-o", "mountpoint=none", "-o", "atime=off", f"{self._pool}/live")
        for name, place in places(self._zones):
            self._run("zfs", "create", "-o", f"mountpoint={place}", f"{self._pool}/live/{name}")
        self._empty = self._used()

    def _used(self) -> int:
        return int(self._run("zfs", "get", "-Hp", "-o", "value", "used", f"{self._pool}/live"))

    def _run(self, *words: str | os.PathLike[str]) -> str:
        """Run a tool where the daemon is."""
        inside = ("nsenter", "--mount", "--target", str(self._daemon.pid)) if self._daemon else ()
        return command(*inside, *words)
