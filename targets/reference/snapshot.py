"""Copies of folders as they were at one instant: contents by their digest, copied only when they changed.

objects/DIGEST     the contents of every version of every file
a tree             path to kind, mode and digest of everything in the folders; small, JSON
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import NotRequired, TypedDict

FICLONE = 0x40049409  # ioctl_ficlone(2): share the blocks with the original until one of the two changes
CHUNK_BYTES = 1 << 20
# Two writes within one tick of the kernel's clock (at most 10 ms) leave the same time stamp: what was changed so
# shortly before it was copied is looked at again.
RACY_NS = 20_000_000


class CorruptStore(Exception):
    """What is stored is not what was stored: resuming from it would be silently wrong."""


class Entry(TypedDict):
    """One path. *digest* names a file's content, *target* is where a link points."""

    kind: str  # "file" | "dir" | "link"
    mode: int
    mtime_ns: int
    digest: NotRequired[str]
    target: NotRequired[str]


Tree = dict[str, Entry]
"""Path, as in "workspace/data/q1.csv", to its entry; folders come before what is in them."""


class Snapshots:
    """Snapshots of *folders* (name to path), with their contents below *objects*."""

    def __init__(self, objects: Path, folders: Mapping[str, Path]) -> None:
        self._objects, self._folders = objects, folders
        self._known: dict[str, tuple[tuple[int, ...], str]] = {}
        self.written = 0  # bytes of the contents that were stored
        objects.mkdir(parents=True, exist_ok=True)

    def take(self) -> Tree:
        """Store what is new in the folders and return their tree; when it returns, the contents are durable."""
        tree: Tree = {}
        for path, entry in self._scan():
            about = entry.stat(follow_symlinks=False)
            common = Entry(kind="dir", mode=stat.S_IMODE(about.st_mode), mtime_ns=about.st_mtime_ns)
            if entry.is_symlink():
                tree[path] = {**common, "kind": "link", "target": os.readlink(entry.path)}
            elif entry.is_dir():
                tree[path] = common
            elif entry.is_file():
                tree[path] = {**common, "kind": "file", "digest": self._stored(path, entry.path, about)}
        return tree

    def restore(self, tree: Tree) -> None:
        """Make the folders what they were at *tree*: what came later goes, what is gone comes back."""
        self._known.clear()  # a content that only a later tree had may be removed now
        for path, entry in reversed(list(self._scan())):
            kind = "link" if entry.is_symlink() else "dir" if entry.is_dir() else "file"
            if path not in tree or tree[path]["kind"] != kind:
                os.rmdir(entry.path) if kind == "dir" else os.unlink(entry.path)
        for path, wanted in tree.items():
            self._restore(self._place(path), wanted)
        for path, wanted in reversed(tree.items()):
            if wanted["kind"] == "dir":  # last, and inner ones first: what is put into a folder changes its time
                os.chmod(self._place(path), wanted["mode"])
                os.utime(self._place(path), ns=(wanted["mtime_ns"], wanted["mtime_ns"]))

    def _restore(self, place: Path, wanted: Entry) -> None:
        if wanted["kind"] == "dir":
            place.mkdir(exist_ok=True)
            return
        if wanted["kind"] == "link":
            if not place.is_symlink() or os.readlink(place) != wanted["target"]:
                place.unlink(missing_ok=True)
                place.symlink_to(wanted["target"])
            return
        if not place.exists() or digest_of(place) != wanted["digest"]:
            place.unlink(missing_ok=True)
            source = self._objects / wanted["digest"]
            if not source.exists():
                raise CorruptStore(f"the stored content of {place.name} is gone (object {wanted['digest']})")
            copy(source, place)
            if digest_of(place) != wanted["digest"]:
                raise CorruptStore(f"the stored content of {place.name} is damaged (object {wanted['digest']})")
        os.chmod(place, wanted["mode"])
        os.utime(place, ns=(wanted["mtime_ns"], wanted["mtime_ns"]))

    def _stored(self, path: str, source: str, about: os.stat_result) -> str:
        """Return the digest of a file whose content is stored; unchanged files cost one stat."""
        mark = (about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_ino)
        known = self._known.get(path)
        if known is not None and known[0] == mark:
            return known[1]
        fresh = self._objects / "fresh"
        copy(Path(source), fresh)
        digest = digest_of(fresh)
        place = self._objects / digest
        if place.exists() and place.stat().st_size == about.st_size:
            fresh.unlink()
        else:
            descriptor = os.open(fresh, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
            fresh.rename(place)
            self.written += about.st_size
        if time.time_ns() - max(about.st_mtime_ns, about.st_ctime_ns) > RACY_NS:
            self._known[path] = (mark, digest)
        return digest

    def _place(self, path: str) -> Path:
        name, _, rest = path.partition("/")
        return self._folders[name] / rest

    def _scan(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Return everything in the folders in a fixed order, folders before what is in them."""
        for name, folder in self._folders.items():
            yield from _walk(name, os.fspath(folder))


def _walk(name: str, folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        path = f"{name}/{entry.name}"
        yield path, entry
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(path, entry.path)


def copy(source: Path, target: Path) -> None:
    """Copy the content of *source*, sharing its blocks where the file system can."""
    with open(source, "rb") as reader, open(target, "wb") as writer:
        try:
            fcntl.ioctl(writer.fileno(), FICLONE, reader.fileno())
        except OSError:
            shutil.copyfileobj(reader, writer, CHUNK_BYTES)


def digest_of(path: Path) -> str:
    """Return the digest of the content of the file at *path*."""
    digest = blake2b(digest_size=16)
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
