"""What we know of the zones: everything as it was last seen, so that a look reads only what has changed since."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

from chaos.capture import tree
from chaos.capture.blocks import Blocks, Body
from chaos.capture.paths import Mark, Place, Stamps, around, closed_to_us, inside, listing, mark, mark_of, open_up
from chaos.capture.tree import File, Folder, Node


class Look(Enum):
    """What becomes of contents that are not known yet."""

    KEEP = "kept for good"
    COMPARE = "kept aside, to be compared with later"
    GLANCE = "not read, but for files with several names: what has changed is not known"


class Seen:
    """Something in a zone as it is there now."""

    __slots__ = ("children", "mark", "node", "sure")

    def __init__(self, mark: Mark, sure: bool, node: Node | None, children: dict[bytes, Seen] | None = None) -> None:
        self.mark = mark
        self.sure = sure  # unless there is another mark, *node* is true
        self.node = node  # None: not known
        self.children = children  # of a folder, in the order of their names

    @property
    def mode(self) -> int:
        return self.mark[2]

    @property
    def linked(self) -> bool:
        """It is a regular file with other names."""
        return self.mark[3] > 1 and stat.S_ISREG(self.mark[2])


@dataclass(slots=True)
class _Visit:
    """A folder whose children are looked at; *within* the one that it is in."""

    path: bytes
    seen: Seen
    within: _Visit | None
    new: bool  # its list of names is to be read
    changed: bool = False  # something in it


class Mirror:
    """All zones as they were last seen.

    Args:
        zones: name to absolute path, without symbolic links on the way.
    """

    def __init__(self, zones: Mapping[str, bytes], blocks: Blocks, stamps: Stamps) -> None:
        self.zones, self.blocks, self.stamps = dict(zones), blocks, stamps
        self.roots: dict[str, Seen | None] = dict.fromkeys(zones)
        self.aside = False  # some contents are kept aside
        self._mapped = set[tuple[int, int]]()
        self._distrust = False  # any file may be a mapped one

    def look(self, how: Look, mapped: Collection[bytes] = ()) -> dict[str, Node | None]:
        """Look at everything; return what is in each zone now, None for one that is gone (or not known).

        Args:
            mapped: files that processes may change without a new time stamp. They are read from now on at each look:
                who has mapped a file once may do so again, between two looks.
        """
        for path in mapped:
            try:
                about = os.stat(path, follow_symlinks=False)
            except (FileNotFoundError, NotADirectoryError):
                continue  # mapped, and deleted since
            except OSError:  # in a folder that is closed to us, or too deep
                self._distrust = True
                continue
            self._mapped.add((about.st_dev, about.st_ino))
        try:
            self.stamps.begin()
            walk = _Walk(self, how, self._mapped, self._distrust)
            self.roots = {name: walk.zone(path, self.roots[name]) for name, path in self.zones.items()}
            walk.finish()
            there = [seen for seen in self.roots.values() if seen is not None]
            assert how is Look.GLANCE or all(seen.node is not None for seen in there), "what is there is not known"
        except BaseException:
            self.forget()
            raise
        if how is Look.KEEP:
            self.aside = False
        return {name: None if seen is None else seen.node for name, seen in self.roots.items()}

    def forget(self) -> None:
        """Know nothing any more: what was seen may be half of the truth."""
        self.roots = dict.fromkeys(self.zones)
        self.aside = False
        self.blocks.forget_unwritten()


@dataclass
class _Walk:
    """One look at everything: folders one after the other, then what they are from the innermost to the outermost."""

    mirror: Mirror
    how: Look
    mapped: set[tuple[int, int]]
    distrust: bool
    visits: list[_Visit] = field(default_factory=list)
    linked: dict[tuple[int, int], Node | None] = field(default_factory=dict)  # inode to what it is
    opened: list[tuple[bytes, Seen]] = field(default_factory=list)  # folders that were closed to us

    def __post_init__(self) -> None:
        self._again = self.how is Look.KEEP and self.mirror.aside

    def zone(self, path: bytes, old: Seen | None) -> Seen | None:
        """Look at what is at *path*, but not yet at what is in it."""
        folder, name = around(path)
        with inside(folder) as place:
            try:
                about = mark(place, name)
            except FileNotFoundError:
                return None
            return self._see(place, path, name, about, old, None)

    def finish(self) -> None:
        """Look at everything that is in the zones."""
        try:
            for visit in self.visits:  # grows
                self._children(visit)
        finally:
            for path, seen in reversed(self.opened):
                folder, name = around(path)
                with inside(folder) as place:
                    os.chmod(place[1] + name, stat.S_IMODE(seen.mode), dir_fd=place[0])
                    seen.mark = mark(place, name)
                    seen.sure = self.mirror.stamps.tell(seen.mark)
        for visit in reversed(self.visits):
            self._fold(visit)

    def _children(self, visit: _Visit) -> None:
        seen, path = visit.seen, visit.path
        assert seen.children is not None
        self._enter(path, seen)
        with inside(path) as place:
            if visit.new:
                names = listing(place)
                visit.changed = names != list(seen.children)
                old = {name: seen.children.get(name) for name in names}
                seen.children = {name: self._child(place, name, child, visit) for name, child in old.items()}
                return
            descriptor, prefix = place
            for name, child in seen.children.items():
                about = mark_of(os.stat(prefix + name, dir_fd=descriptor, follow_symlinks=False))
                if about == child.mark and child.sure and child.children is None and not self._must_read(child):
                    continue  # nearly all of them
                seen.children[name] = self._see(place, path + b"/" + name, name, about, child, visit)

    def _child(self, place: Place, name: bytes, old: Seen | None, visit: _Visit) -> Seen:
        return self._see(place, visit.path + b"/" + name, name, mark(place, name), old, visit)

    def _must_read(self, seen: Seen) -> bool:
        """Tell whether a file is to be read in spite of its mark."""
        if self.distrust or (self.mapped and seen.mark[:2] in self.mapped):
            return True
        return self._again and isinstance(seen.node, File) and seen.node.body.aside

    def _see(self, place: Place, path: bytes, name: bytes, about: Mark, old: Seen | None, visit: _Visit | None) -> Seen:
        """Return what is called *name* and has the mark *about*; *old*: what was last seen there."""
        if stat.S_ISDIR(about[2]):
            new = old is None or old.children is None or old.mark != about or not old.sure
            seen = old if old is not None and old.children is not None else Seen(about, False, None, {})
            if new:
                seen.mark, seen.sure = about, self.mirror.stamps.tell(about)
            self.visits.append(_Visit(path, seen, visit, new))
            return seen
        if old is not None and old.mark == about and old.sure and not self._must_read(old):
            return old
        seen = Seen(about, self.mirror.stamps.tell(about), None)
        if stat.S_ISREG(about[2]):
            self._file(place, name, seen, old)
        elif stat.S_ISLNK(about[2]):
            target = os.readlink(place[1] + name, dir_fd=place[0])
            seen.node = _same(old, tree.link(about[2], about[5], target))
        else:
            device = os.stat(place[1] + name, dir_fd=place[0], follow_symlinks=False).st_rdev
            seen.node = _same(old, tree.special(about[2], about[5], device))
        if visit is not None and (old is None or seen.node is not old.node or seen.node is None):
            visit.changed = True
        return seen

    def _file(self, place: Place, name: bytes, seen: Seen, old: Seen | None) -> None:
        if self.how is Look.GLANCE and not seen.linked:
            return
        identity = seen.mark[:2]
        if identity in self.linked:
            seen.node = self.linked[identity]
            return
        last = old.node if old is not None and isinstance(old.node, File) else None
        body = self._read(place, name, seen, last)
        self.mirror.aside |= body.aside
        node = tree.file(seen.mode, seen.mark[5], seen.linked, body)
        if last is not None and old is not None and body is last.body and _alike(last, node):
            # The object stands for the inode where there are several names.
            node = last if not node.linked or old.mark[:2] == identity else node
        seen.node = node
        if seen.linked:
            self.linked[identity] = node

    def _read(self, place: Place, name: bytes, seen: Seen, last: File | None) -> Body:
        closed = closed_to_us(place, name, seen.mode, os.R_OK)
        if closed:
            open_up(place, name, seen.mode)
        try:
            file = os.open(place[1] + name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place[0])
            try:
                return self.mirror.blocks.body(file, last.body if last else None, keep=self.how is Look.KEEP)
            finally:
                os.close(file)
        finally:
            if closed:
                os.chmod(place[1] + name, stat.S_IMODE(seen.mode), dir_fd=place[0])
                seen.mark = mark(place, name)
                seen.sure = self.mirror.stamps.tell(seen.mark)

    def _enter(self, path: bytes, seen: Seen) -> None:
        """See that we may list and enter the folder at *path*, until the end of the look."""
        need = os.R_OK | os.X_OK
        if seen.mode & (need << 6) == need << 6:
            return
        folder, name = around(path)
        with inside(folder) as place:
            if closed_to_us(place, name, seen.mode, need):
                open_up(place, name, seen.mode)
                self.opened.append((path, seen))

    def _fold(self, visit: _Visit) -> None:
        """Say what a folder is, all that is in it being known."""
        if not visit.new and not visit.changed:
            return
        seen, old = visit.seen, visit.seen.node
        assert seen.children is not None
        nodes = [child.node for child in seen.children.values()]
        known = [node for node in nodes if node is not None]
        seen.node = None
        if len(known) == len(nodes):
            names, mode, mtime_ns = tuple(seen.children), seen.mode, seen.mark[5]
            seen.node = tree.folder(mode, mtime_ns, names, tuple(known))
            if isinstance(old, Folder) and (old.mode, old.mtime_ns, old.names) == (mode, mtime_ns, names):
                same = all(node is last for node, last in zip(known, old.nodes, strict=True))
                seen.node = old if same else seen.node
        if visit.within is not None and (seen.node is None or seen.node is not old):
            visit.within.changed = True


def _alike(one: Node, other: Node) -> bool:
    return one[:3] == other[:3] and one.digest == other.digest


def _same(old: Seen | None, node: Node) -> Node:
    """Return what was last seen if it is the same as *node*, so that two instants share it."""
    last = old.node if old is not None else None
    return last if last is not None and type(last) is type(node) and _alike(last, node) else node
