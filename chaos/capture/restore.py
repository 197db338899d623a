"""Zones made what they were at an earlier instant, by as few changes as that takes."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from chaos.capture.blocks import Blocks
from chaos.capture.mirror import Mirror, Seen
from chaos.capture.paths import Place, Stamps, around, closed_to_us, inside, mark, mark_of, open_up
from chaos.capture.tree import File, Folder, Link, Node, Special

NEW = (0, 0, 0, 0, 0, 0, 0)  # the mark of what is just being made


def restore(mirror: Mirror, zones: Mapping[str, Node | None]) -> int:
    """Make *zones* of what is there, of which *mirror* knows what has changed; return the bytes of contents written."""
    work = _Restore(mirror.blocks, mirror.stamps)
    mirror.stamps.begin()
    for name, path in mirror.zones.items():
        folder, last = around(path)
        with inside(folder) as place:
            mirror.roots[name] = work.settle(place, folder, last, mirror.roots[name], zones[name])
    work.finish()
    return work.written


class _Restore:
    """One return to an earlier instant: top down; then what has several names; then folders, from the innermost."""

    def __init__(self, blocks: Blocks, stamps: Stamps) -> None:
        self.written = 0
        self._blocks, self._stamps = blocks, stamps
        self._pairs: list[tuple[bytes, Seen, Folder]] = []  # folders to go through
        self._groups: dict[int, tuple[File, list[tuple[bytes, bytes, Seen]]]] = {}  # files with several names

    def finish(self) -> None:
        """Do what is to be done in folders, and then to them."""
        for path, seen, wanted in self._pairs:  # grows
            self._fill(path, seen, wanted)
        for file, names in self._groups.values():
            if not all(seen.node is file for _, _, seen in names):
                self._link(file, names)
        for path, seen, wanted in reversed(self._pairs):
            folder, name = around(path)
            with inside(folder) as place:
                self._dress(place, name, seen, wanted)

    def settle(self, place: Place, folder: bytes, name: bytes, seen: Seen | None, wanted: Node | None) -> Seen | None:
        """Put *wanted* in the place of *seen* if it is another; return what is there then.

        Args:
            place: of the folder whose path is *folder*, and in which they are called *name*.
        """
        if wanted is None:
            self._remove(place, folder, name, seen)
            return None
        if seen is not None and seen.node is wanted and not wanted.linked:
            return seen
        if isinstance(wanted, File):
            if wanted.linked:
                seen = seen or Seen(NEW, False, None)
                self._groups.setdefault(id(wanted), (wanted, []))[1].append((folder, name, seen))
                return seen
            return self._file(place, folder, name, seen, wanted)
        if isinstance(wanted, Folder):
            if seen is None or seen.children is None:
                self._remove(place, folder, name, seen)
                os.mkdir(place[1] + name, stat.S_IRWXU, dir_fd=place[0])
                seen = Seen(mark(place, name), False, None, {})
            self._pairs.append((folder + b"/" + name, seen, wanted))
            return seen
        if seen is None or seen.node is None or seen.node.digest != wanted.digest:
            self._remove(place, folder, name, seen)
            _make(place, name, wanted)
            seen = Seen(NEW, False, None)
        self._dress(place, name, seen, wanted)
        return seen

    def _fill(self, path: bytes, seen: Seen, wanted: Folder) -> None:
        """Make what is in the folder at *path* what is in *wanted*."""
        assert seen.children is not None
        self._enter(path, seen)
        there, names = seen.children, set(wanted.names)
        with inside(path) as place:
            for name in [name for name in there if name not in names]:
                self._remove(place, path, name, there[name])
            children: dict[bytes, Seen] = {}
            for name, node in zip(wanted.names, wanted.nodes, strict=True):
                child = there.get(name)
                if child is None or child.node is not node or node.linked:  # few are
                    child = self.settle(place, path, name, child, node)
                    assert child is not None
                children[name] = child
        seen.children = children

    def _enter(self, path: bytes, seen: Seen) -> None:
        """See that we may change what is in the folder at *path*."""
        if seen.mode & stat.S_IRWXU == stat.S_IRWXU:
            return
        folder, name = around(path)
        with inside(folder) as place:
            if closed_to_us(place, name, seen.mode, os.R_OK | os.W_OK | os.X_OK):
                open_up(place, name, seen.mode)

    def _file(self, place: Place, folder: bytes, name: bytes, seen: Seen | None, wanted: File) -> Seen:
        """Make a file with one name; what has others too keeps its content under those."""
        if seen is None or not stat.S_ISREG(seen.mode) or seen.linked:
            self._remove(place, folder, name, seen)
            seen = None
        known = seen.node.body if seen is not None and isinstance(seen.node, File) else None
        if known is None or known.digest != wanted.body.digest:
            self._write(place, name, seen, wanted)
        seen = seen or Seen(NEW, False, None)
        self._dress(place, name, seen, wanted)
        return seen

    def _write(self, place: Place, name: bytes, seen: Seen | None, wanted: File) -> None:
        known = seen.node.body if seen is not None and isinstance(seen.node, File) else None
        flags = os.O_RDWR | os.O_NOFOLLOW
        if seen is None:
            flags |= os.O_CREAT | os.O_EXCL
        elif closed_to_us(place, name, seen.mode, os.R_OK | os.W_OK):
            open_up(place, name, seen.mode)
        file = os.open(place[1] + name, flags, stat.S_IRUSR | stat.S_IWUSR, dir_fd=place[0])
        try:
            self.written += self._blocks.put(file, wanted.body, known)
        finally:
            os.close(file)

    def _link(self, file: File, names: list[tuple[bytes, bytes, Seen]]) -> None:
        """Make *file* anew under all of its names."""
        for folder, name, seen in names:
            if seen.mark is not NEW:
                with inside(folder) as place:
                    self._remove(place, folder, name, seen)
        first, last, one = names[0]
        with inside(first) as place:
            self._write(place, last, None, file)
            for folder, name, _ in names[1:]:
                with inside(folder) as other:
                    os.link(place[1] + last, other[1] + name, src_dir_fd=place[0], dst_dir_fd=other[0])
            self._dress(place, last, one, file)
        for _, _, seen in names:
            seen.mark, seen.sure, seen.node, seen.children = one.mark, one.sure, file, None

    def _dress(self, place: Place, name: bytes, seen: Seen, wanted: Node) -> None:
        """Give what is called *name* the bits and the time of *wanted*, and remember it as that."""
        descriptor, path = place[0], place[1] + name
        about = mark(place, name)
        if about[2] != wanted.mode:
            os.chmod(path, stat.S_IMODE(wanted.mode), dir_fd=descriptor)
        if about[5] != wanted.mtime_ns:
            times = (wanted.mtime_ns, wanted.mtime_ns)
            os.utime(path, ns=times, dir_fd=descriptor, follow_symlinks=False)
        about = mark_of(os.stat(path, dir_fd=descriptor, follow_symlinks=False))
        if about[2] != wanted.mode:
            raise OSError(
                f"{os.fsdecode(path)} has the mode {about[2]:o}, and {wanted.mode:o} could not be given to it"
            )
        seen.mark, seen.sure, seen.node = about, self._stamps.tell(about), wanted

    def _remove(self, place: Place, folder: bytes, name: bytes, seen: Seen | None) -> None:
        """Remove what is called *name*, with everything in it."""
        if seen is None:
            return
        if seen.children is None:
            os.unlink(place[1] + name, dir_fd=place[0])
            return
        below = [(folder + b"/" + name, seen)]
        for path, inner in below:  # grows
            self._enter(path, inner)
            children = (inner.children or {}).items()
            below += [(path + b"/" + name, child) for name, child in children if child.children is not None]
        for path, inner in reversed(below):
            with inside(path) as within:
                for name, child in (inner.children or {}).items():
                    if child.children is None:
                        os.unlink(within[1] + name, dir_fd=within[0])
            outer, name = around(path)
            with inside(outer) as within:
                os.rmdir(within[1] + name, dir_fd=within[0])


def _make(place: Place, name: bytes, wanted: Link | Special) -> None:
    if isinstance(wanted, Link):
        os.symlink(wanted.target, place[1] + name, dir_fd=place[0])
    else:
        os.mknod(place[1] + name, wanted.mode, wanted.device, dir_fd=place[0])
