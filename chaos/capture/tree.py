"""What is in a zone at one instant, as an immutable tree; two instants share all that did not change in between.

The digest of a node covers what an agent can see of it: kind, permission bits, and content, target or what is in it;
its name belongs to the folder. Times, inodes and owners are in no digest.
"""

from __future__ import annotations

import stat
from typing import NamedTuple, TypeAlias

from chaos.capture.blocks import DIGEST, Body, digest_of

WAL, WAL_INDEX = b"-wal", b"-shm"
"""Names of what SQLite keeps beside a database. The index of its log is for those who have it open: who opens the
database when they are gone makes it anew, whatever it holds (sqlite.org/walformat.html, 2). So it is captured and put
back, but only its name is in a digest."""


class File(NamedTuple):
    """A regular file. One that has several names is the same object under all of them."""

    mode: int  # as in stat, with the kind
    mtime_ns: int
    linked: bool  # it has other names, in the zones or elsewhere
    body: Body
    digest: bytes


class Folder(NamedTuple):
    """A folder and everything in it."""

    mode: int
    mtime_ns: int
    linked: bool  # there is a file in it, or deeper, that has other names
    names: tuple[bytes, ...]  # sorted
    nodes: tuple[Node, ...]
    digest: bytes


class Link(NamedTuple):
    """A symbolic link."""

    mode: int
    mtime_ns: int
    linked: bool  # no: further names of links are made links of their own
    target: bytes
    digest: bytes


class Special(NamedTuple):
    """A FIFO, a socket that nobody listens on any more, or a device."""

    mode: int
    mtime_ns: int
    linked: bool  # no, as above
    device: int
    digest: bytes


Node: TypeAlias = File | Folder | Link | Special


def file(mode: int, mtime_ns: int, linked: bool, body: Body) -> File:
    """Return a regular file."""
    return File(mode, mtime_ns, linked, body, _digest(mode, body.digest))


def folder(mode: int, mtime_ns: int, names: tuple[bytes, ...], nodes: tuple[Node, ...]) -> Folder:
    """Return a folder with *nodes* under their *names*, which are sorted."""
    parts = [part for name, node in zip(names, nodes, strict=True) for part in (name, b"\0", node.digest)]
    for place, name in enumerate(names):
        if name.endswith(WAL_INDEX) and isinstance(nodes[place], File) and _beside(name, names):
            parts[3 * place + 2] = bytes(DIGEST)
    inside = b"".join(parts)
    return Folder(mode, mtime_ns, any(node.linked for node in nodes), names, nodes, _digest(mode, inside))


def link(mode: int, mtime_ns: int, target: bytes) -> Link:
    """Return a symbolic link."""
    return Link(mode, mtime_ns, False, target, _digest(mode, target))


def special(mode: int, mtime_ns: int, device: int) -> Special:
    """Return a FIFO, a socket or a device."""
    return Special(mode, mtime_ns, False, device, _digest(mode, b"%d" % device if _numbered(mode) else b""))


def _beside(index: bytes, names: tuple[bytes, ...]) -> bool:
    """Tell whether among *names* are a database and its log, of which *index* would be the index."""
    database = index.removesuffix(WAL_INDEX)
    return {database, database + WAL} <= set(names)


def _numbered(mode: int) -> bool:
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def _digest(mode: int, content: bytes) -> bytes:
    return digest_of(mode.to_bytes(4, "little") + content)
