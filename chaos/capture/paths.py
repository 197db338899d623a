"""Paths of any length, and what tells that a file has not changed since it was looked at."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

LONG = 2048  # bytes; the kernel takes paths of 4095 (PATH_MAX), and one name more must find room
COARSE = 5  # CLOCK_REALTIME_COARSE (clock_gettime(2)): what Linux stamps files with
# Two changes within one tick of the kernel's clock (at most 10 ms) leave the same stamp, and a file system may round
# it: what was changed so shortly before it was read is read again.
RACY_NS = 20_000_000
SECOND_NS = 1_000_000_000  # ext4 with inodes of 128 bytes, FAT and old network file systems know whole seconds only
PROBES = 16

Place: TypeAlias = tuple[int | None, bytes]
"""How to name what is in a folder: an open folder (None: none is needed), and what to put before the name."""

Mark: TypeAlias = tuple[int, int, int, int, int, int, int]
"""Of a file: device, inode, mode, number of names, size, time of change, time of status change."""


def mark_of(about: os.stat_result) -> Mark:
    """Return what changes whenever the file does; no program can set the last of these times."""
    return (
        about.st_dev,
        about.st_ino,
        about.st_mode,
        about.st_nlink,
        about.st_size,
        about.st_mtime_ns,
        about.st_ctime_ns,
    )


def mark(place: Place, name: bytes) -> Mark:
    """Return the mark of what is called *name* in the folder at *place*."""
    return mark_of(os.stat(place[1] + name, dir_fd=place[0], follow_symlinks=False))


@contextmanager
def inside(folder: bytes) -> Iterator[Place]:
    """Yield how to name what is in the *folder*, an absolute path that may be longer than the kernel takes."""
    if len(folder) < LONG:
        yield None, folder + b"/"
        return
    opened: int | None = None
    try:
        while len(folder) >= LONG:
            piece, _, rest = folder[:LONG].rpartition(b"/")
            folder = rest + folder[LONG:]
            deeper = os.open(piece, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=opened)
            if opened is not None:
                os.close(opened)
            opened = deeper
        yield opened, folder + b"/"
    finally:
        if opened is not None:
            os.close(opened)


def around(path: bytes) -> tuple[bytes, bytes]:
    """Return the folder that *path* is in, and its name there."""
    folder, _, name = path.rpartition(b"/")
    return folder, name


def listing(place: Place) -> list[bytes]:
    """Return the names of everything in the folder at *place*, sorted."""
    opened = os.open(place[1], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place[0])
    try:
        return sorted(map(os.fsencode, os.listdir(opened)))
    finally:
        os.close(opened)


def closed_to_us(place: Place, name: bytes, mode: int, need: int) -> bool:
    """Tell whether we may not read (4), write (2) or enter (1) what is ours, as *need* says; root always may."""
    bits = need << 6
    return mode & bits != bits and not os.access(place[1] + name, need, dir_fd=place[0], effective_ids=True)


def open_up(place: Place, name: bytes, mode: int) -> None:
    """Let ourselves do everything with what is ours."""
    os.chmod(place[1] + name, stat.S_IMODE(mode) | stat.S_IRWXU, dir_fd=place[0])


class Stamps:
    """When the stamps of a file are enough to know that it has not changed.

    Where the kernel gives every change after a look a new stamp (multigrain timestamps, Linux 6.13), they always are.
    """

    def __init__(self, folder: Path) -> None:
        self._exact = os.stat(folder).st_dev if _exact(folder / "stamps") else None
        self._now = 0
        self.begin()

    def begin(self) -> None:
        """Begin to look: what changes from now on is stamped no earlier."""
        self._now = time.clock_gettime_ns(COARSE)

    def tell(self, mark: Mark) -> bool:
        """Tell whether a file with *mark*, which is read from now on, will have another one after its next change."""
        if mark[0] == self._exact:
            return True
        return mark[6] < self._now - (RACY_NS if mark[6] % SECOND_NS else 2 * SECOND_NS)


def _exact(file: Path) -> bool:
    """Tell whether *file*, changed again and again within one tick of the clock, has other stamps each time."""
    opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        for _ in range(PROBES):
            before, stamps = time.clock_gettime_ns(COARSE), set[int]()
            for _ in range(PROBES):
                os.pwrite(opened, b"x", 0)
                stamps.add(os.fstat(opened).st_ctime_ns)
            if time.clock_gettime_ns(COARSE) == before:
                return len(stamps) == PROBES
        return False
    finally:
        os.close(opened)
        os.unlink(file)
