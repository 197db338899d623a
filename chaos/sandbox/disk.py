"""A disk of the sandbox's own: a journaling file system in a file, that can lose its power and fill up, for real.

The shutdown ioctl is the one by which the test suites of file systems cut the power: the file system stops at once
and writes nothing back any more. What is there after the next mount is what was synced (and what the kernel had
written back on its own).

Mounting, unmounting and that ioctl need root; for an ordinary user who may use Docker they are done in a helper
container. The top of the file system is the user's own, and the rest needs no privilege.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import hashlib
import os
import shutil
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from chaos import leftovers
from chaos.errors import HarnessError
from chaos.sandbox import Zones
from chaos.sandbox.mounts import SEARCH, Image, privileged, sync, undone, unmount

# Without a share of blocks that only root may use: full is full for everybody. `commit`: seconds between the journal's
# own commits, 5 by default; the longest there is, so that it is the agent's syncs that decide, not the run's speed.
EXT4 = (("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"), ("commit=300",))
XFS = (("mkfs.xfs", "-q"), ())  # it has no such option, and commits every 30 s (fs.xfs.xfssyncd_centisecs)
KINDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {"ext4": EXT4, "xfs": XFS}

IMAGE_BYTES = 512 << 20  # of a sparse file; mkfs.xfs makes nothing below 300 MB
GOINGDOWN = 0x8004587D  # linux/fs.h: FS_IOC_SHUTDOWN, _IOR('X', 125, __u32)
NO_LOG_FLUSH = struct.pack("I", 2)  # EXT4_GOING_FLAGS_NOLOGFLUSH, XFS_FSOP_GOING_FLAGS_NOLOGFLUSH
SHUTDOWN = """
import fcntl, os, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY), int(sys.argv[2]), bytes.fromhex(sys.argv[3]))
"""
BUSY_SECONDS = 10.0  # for which a namespace that is being made may hold a copy of the mount
POLL_SECONDS = 0.01
FILLER = ".filler"  # beside the zones: the agent does not look there, and an observation does not either
LEAST_BYTES = 4096  # a block: a piece that cannot be had is halved down to it


class Entry(NamedTuple):
    """What a path is: size and digest of a file, the kind of anything else."""

    size: int
    content: str


@dataclass(frozen=True)
class Loss:
    """What a power loss took: *lost* paths are gone, *changed* have another content, *reappeared* had been removed.

    Of *before* files; *bytes* that are not there any more: all of the lost files, and what the changed ones are
    shorter by. *refused* is the error of a write between the shutdown and the mount.
    """

    refused: str
    before: int
    lost: tuple[str, ...]
    changed: tuple[str, ...]
    reappeared: tuple[str, ...]
    bytes: int


class Disk:
    """The file system *kind* ("ext4", "xfs") in a file in the folder *home*, mounted over the root of *zones*."""

    def __init__(self, home: Path, zones: Zones, kind: str, size: int = 0) -> None:
        self.kind, self.home, self._zones = kind, home, zones
        self._filler = zones.root / FILLER
        mkfs, options = KINDS[kind]
        # An unmount reaches the mount namespaces of all sandboxes that were made meanwhile, but only below a mount that
        # is shared; a copy that lives on in one of them would keep the file system alive, and with it what was lost.
        privileged("mount", "--bind", home, home)
        with undone(self.close):
            privileged("mount", "--make-shared", home)
            self._image = Image(home / f"{kind}.img", zones.root, mkfs, size or IMAGE_BYTES, options)
            if os.geteuid() != 0:
                privileged("chown", f"{os.geteuid()}:{os.getegid()}", zones.root)
                self.sync()  # it must outlive a power loss

    def sync(self) -> None:
        """Make everything durable that is on it now."""
        sync(self._zones.root)

    def free_bytes(self) -> int:
        """Return what an agent without privileges can still have."""
        about = os.statvfs(self._zones.root)
        return about.f_bavail * about.f_frsize

    def lose_power(self) -> Loss:
        """Stop the file system where it is, nothing written back, and mount it again; no process is at work on it.

        Raises:
            HarnessError: a write to it was still possible, or it could not be mounted again as a new one.
        """
        before = self._content()
        self._shut_down()
        if not (refused := self._refusal()):
            raise HarnessError(f"{self.kind} took a write after its shutdown: the power is not off")
        self._unmount()
        self._image.mount()
        if still := self._refusal():
            raise HarnessError(f"{self.kind} takes no writes ({still}) after it was mounted again; something holds it")
        return _loss(refused, before, self._content())

    def fill(self) -> None:
        """Take all free space with one file, by allocating it without writing it."""
        file = os.open(self._filler, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size, piece = os.fstat(file).st_size, 1 << 40
            while piece >= LEAST_BYTES and (free := self.free_bytes()):
                piece = min(piece, max(free, LEAST_BYTES))
                try:
                    os.posix_fallocate(file, size, piece)
                    size += piece
                except OSError as error:
                    if error.errno not in (errno.ENOSPC, errno.EFBIG):
                        raise
                    piece //= 2  # the map of its own blocks takes some, too
        finally:
            os.close(file)

    def free(self) -> None:
        """Give the space back; nothing happens where it was not taken."""
        self._filler.unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount it and remove the image. May be called twice."""
        if hasattr(self, "_image"):
            self._image.close()
        unmount(self.home)

    def _shut_down(self) -> None:
        if os.geteuid() != 0:
            python = (sys.executable, "-I", "-S", "-c", SHUTDOWN)
            privileged(*python, self._zones.root, str(GOINGDOWN), NO_LOG_FLUSH.hex())
            return
        top = os.open(self._zones.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(top, GOINGDOWN, NO_LOG_FLUSH)
        except OSError as error:
            raise HarnessError(f"{self.kind} does not shut down: {error.strerror}") from error
        finally:
            os.close(top)

    def _refusal(self) -> str:
        """Write something, and return the error that it met; "" for none."""
        probe = self._zones.root / ".probe"
        try:
            probe.write_bytes(b"x")
            probe.unlink()
        except OSError as error:
            return errno.errorcode.get(error.errno or 0, str(error))
        return ""

    def _unmount(self) -> None:
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                privileged("umount", self._zones.root)
            except HarnessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_SECONDS)
            else:
                return

    def _content(self) -> dict[str, Entry]:
        """Return what each path of the zones is; a path that cannot be read is told by its error."""
        root = os.fspath(self._zones.root)
        return {path.removeprefix(f"{root}/"): entry for path, entry in _walk(root)}


def _walk(folder: str) -> Iterator[tuple[str, Entry]]:
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name in (FILLER, "lost+found"):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield entry.path, Entry(0, "folder")
                yield from _walk(entry.path)
            elif entry.is_file(follow_symlinks=False):
                with open(entry.path, "rb") as file:
                    digest = hashlib.file_digest(file, functools.partial(hashlib.blake2b, digest_size=16))
                yield entry.path, Entry(entry.stat(follow_symlinks=False).st_size, digest.hexdigest())
            else:
                yield entry.path, Entry(0, os.readlink(entry.path) if entry.is_symlink() else "other")


def _loss(refused: str, before: Mapping[str, Entry], after: Mapping[str, Entry]) -> Loss:
    """Return what *after* has not of *before*."""
    lost = sorted(before.keys() - after.keys())
    changed = sorted(path for path in before.keys() & after.keys() if before[path] != after[path])
    shorter = (max(0, before[path].size - after[path].size) for path in changed)
    return Loss(
        refused,
        len(before),
        tuple(lost),
        tuple(changed),
        tuple(sorted(after.keys() - before.keys())),
        sum(before[path].size for path in lost) + sum(shorter),
    )


@functools.cache
def missing(kind: str) -> str:
    """Return what this machine lacks for a disk of *kind*, and the remedy; "" if nothing. Tried once, for real."""
    root = os.geteuid() == 0
    tool = KINDS[kind][0][0]
    if not shutil.which(tool, path=SEARCH):
        package = {"ext4": "e2fsprogs", "xfs": "xfsprogs"}[kind]
        return f"no {tool} on the PATH: apt-get install {package}"
    if not root and (reason := _helpless()):
        needs = "root (CAP_SYS_ADMIN and a loop device), or Docker"
        return f"mounting an {kind} image needs {needs}: {reason}; or run it as root"
    trial = leftovers.folder("trial-")
    try:
        zones = Zones(trial / "sandbox")
        zones.root.mkdir()
        disk = Disk(trial, zones, kind)
        try:
            (zones.root / "unsynced").touch()
            disk.lose_power()
        finally:
            disk.close()
    except (HarnessError, OSError) as error:
        way = "" if root else ", through Docker"
        return f"an {kind} image cannot be mounted here{way}: {error}; run it as root on a machine with loop devices"
    finally:
        leftovers.remove(trial)
    return ""


def _helpless() -> str:
    """Return why no helper container can be root for us; its module is imported where it is needed, for its SDK."""
    from chaos.sandbox.docker import helper

    return helper.missing()
