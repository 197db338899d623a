"""Copies of whole trees: everything that a file system knows, and no block twice where it can share them."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from chaos.targets.reference.snapshot import RACY_NS, copy, digest_of

# An overlay's notes about where a file came from: they name inodes of other layers, and mean nothing in a copy.
UNPORTABLE = ("trusted.overlay.origin", "trusted.overlay.impure", "trusted.overlay.nlink", "trusted.overlay.uuid")

Mark = tuple[int, ...]
Put = Callable[[Path, os.stat_result, Path], None]


class Known(NamedTuple):
    """A file as it was when it was copied; *sure*: it cannot have changed since without another *mark*."""

    mark: Mark
    copy: Path
    sure: bool


class Copies:
    """Immutable copies of one tree, one after the other: a file that has not changed is the same file in both.

    A change is told by inode, size, and times of change and status change; what was changed within one tick of the
    kernel's clock before it was copied is compared with its copy the next time. A store into a file that is mapped into
    memory is seen when the kernel has noticed it, which it does at the first one after each write-back.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Known] = {}

    def take(self, source: Path, target: Path) -> list[Path]:
        """Copy the tree *source* to *target*, an empty folder or none yet; return the files that were really copied."""
        copied: list[Path] = []
        known, self._known = self._known, {}
        linked: dict[tuple[int, int], Path] = {}

        def put(file: Path, about: os.stat_result, place: Path) -> None:
            key, mark = (about.st_dev, about.st_ino), _mark(about)
            racy = time.time_ns() - max(about.st_mtime_ns, about.st_ctime_ns) <= RACY_NS
            same = linked.get(key) or _unchanged(file, mark, known.get(key))
            if same is not None:
                os.link(same, place, follow_symlinks=False)
            else:
                _copy(file, place)
                copied.append(place)
            linked[key] = place
            self._known[key] = Known(mark, place, not racy)

        _replicate(source, target, put)
        return copied

    def put_back(self, source: Path, target: Path) -> None:
        """Make a tree *target* that may be changed from the copy *source*; the next `take` knows them to be equal."""
        linked: dict[tuple[int, int], Path] = {}

        def put(file: Path, about: os.stat_result, place: Path) -> None:
            same = linked.setdefault((about.st_dev, about.st_ino), place)
            if same is not place:
                os.link(same, place, follow_symlinks=False)
            else:
                _copy(file, place)
            made = place.stat(follow_symlinks=False)  # a second name changes the mark: the last one counts
            self._known[made.st_dev, made.st_ino] = Known(_mark(made), file, True)

        _replicate(source, target, put)


def _unchanged(file: Path, mark: Mark, last: Known | None) -> Path | None:
    """Return the *last* copy of *file* if it is one still, None if there must be another."""
    same = last is not None and last.mark == mark and (last.sure or alike(file, last.copy))
    return last.copy if last and same else None


def _mark(about: os.stat_result) -> Mark:
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _replicate(source: Path, target: Path, put: Put) -> None:
    """Make the folder *target* like *source*, its files by *put*."""
    target.mkdir(exist_ok=True)
    with os.scandir(source) as found:
        entries = list(found)
    for entry in entries:
        file, place = Path(entry.path), target / entry.name
        about = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(about.st_mode):
            _replicate(file, place, put)
        elif stat.S_ISREG(about.st_mode):
            put(file, about, place)
        elif stat.S_ISLNK(about.st_mode):
            place.symlink_to(os.readlink(file))
            dress(file, place)
        else:  # pipes, sockets, devices; a device 0, 0 is an overlay's note that a file is gone
            os.mknod(place, about.st_mode, about.st_rdev)
            dress(file, place)
    dress(source, target)  # last: what is put into a folder changes its time


def _copy(file: Path, place: Path) -> None:
    copy(file, place)
    dress(file, place)


def alike(file: Path, other: Path) -> bool:
    """Tell whether two files are the same in all that is copied."""
    facts = [(stat.S_IMODE(about.st_mode), about.st_uid, about.st_gid) for about in (file.lstat(), other.lstat())]
    return facts[0] == facts[1] and _extended(file) == _extended(other) and digest_of(file) == digest_of(other)


def _extended(path: Path) -> dict[str, bytes]:
    names = os.listxattr(path, follow_symlinks=False)
    return {name: os.getxattr(path, name, follow_symlinks=False) for name in names if name not in UNPORTABLE}


def dress(original: Path, place: Path) -> None:
    """Give *place* the owner, the extended attributes, the mode and the times of *original*."""
    about, made = original.lstat(), place.lstat()
    if (made.st_uid, made.st_gid) != (about.st_uid, about.st_gid):
        os.chown(place, about.st_uid, about.st_gid, follow_symlinks=False)
    for name, value in _extended(original).items():
        os.setxattr(place, name, value, follow_symlinks=False)
    if not stat.S_ISLNK(about.st_mode):
        os.chmod(place, stat.S_IMODE(about.st_mode))
    os.utime(place, ns=(about.st_atime_ns, about.st_mtime_ns), follow_symlinks=False)
