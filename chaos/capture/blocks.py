"""Contents of files as trees of blocks: what two versions have in common is kept once.

A file is cut at fixed offsets into blocks, and these are gathered into leaves. The digest of a content is a hash over
those of its leaves, and theirs over those of their blocks (a hash tree, Merkle 1987), so that equal contents have equal
digests however they came about, and a small change of a large file makes one new leaf.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from chaos.capture.area import Area, fill, write

BLOCK = 4096  # bytes; a page of SQLite, and of the kernel's cache
FAN = 64  # blocks of a leaf
SPAN = BLOCK * FAN  # bytes that are compared at once: they fit into a core's cache, read and kept
DIGEST = 16  # bytes
SCATTERED = 4  # pieces: a leaf that is kept in more of them is slow to read
AT_HAND = 32  # such leaves that are remembered, 8 MB: a log of SQLite has 16, written a few blocks at a time
ASIDE = 1 << 62  # where the numbers of places in the second file begin
ZEROS = bytes(SPAN)


def digest_of(data: bytes) -> bytes:
    """Return the digest of *data*."""
    return blake2b(data, digest_size=DIGEST).digest()


class Leaf(NamedTuple):
    """The blocks of one span of a file."""

    digest: bytes
    hashes: bytes  # of the blocks, one after the other
    places: array[int]  # where each block is kept; never changed


class Body(NamedTuple):
    """The content of a file, at most the last block of which is short."""

    size: int  # bytes
    leaves: tuple[Leaf, ...]
    digest: bytes
    aside: bool  # some of it is kept until `Blocks.forget_aside` only


EMPTY = Body(0, (), digest_of(b""), False)


class Blocks:
    """Where blocks are kept, in files in *folder*: one for good, one for what is looked at only for a while."""

    def __init__(self, folder: Path) -> None:
        self._kept, self._aside = Area(folder / "kept", 0), Area(folder / "aside", ASIDE)
        self._live, self._known = bytearray(SPAN), bytearray(SPAN)
        self._live_view, self._known_view = memoryview(self._live), memoryview(self._known)
        self._at_hand: dict[bytes, bytes] = {}  # digest of a leaf to its content; last used last
        zero = digest_of(ZEROS[:BLOCK])
        hashes = zero * FAN
        self._zero = Leaf(digest_of(hashes), hashes, array("q", [self._kept.add(zero, ZEROS[:BLOCK])] * FAN))
        self._kept.flush()
        self.read_bytes = 0  # of files in the zones

    @property
    def kept_bytes(self) -> int:
        """How much is kept for good, in bytes."""
        return self._kept.end

    def close(self) -> None:
        """Give all of it up."""
        os.close(self._kept.file)
        os.close(self._aside.file)

    def forget_aside(self) -> None:
        """Give up what was kept for a while: no body says `aside` any more."""
        self._aside.forget()

    def forget_unwritten(self) -> None:
        """Go on after an error in the middle of something: what is known of the two files is what is in them."""
        self._kept.forget()
        self._aside.forget()

    def body(self, file: int, near: Body | None, *, keep: bool) -> Body:
        """Return the content of the open *file*.

        Args:
            near: a content that it may have much in common with: of that, nothing is hashed or written.
            keep: for good; else until `forget_aside`.

        Returns:
            *near* itself if the content is the same.
        """
        old = near or EMPTY
        leaves: list[Leaf] = []
        size = 0
        while count := self._read(file, size):
            number = len(leaves)
            before = old.leaves[number] if number < len(old.leaves) else None
            leaves.append(self._leaf(count, before, min(SPAN, old.size - size), keep))
            size += count
            if count < SPAN:
                break
        (self._kept if keep else self._aside).flush()
        if size == old.size and all(leaf is same for leaf, same in zip(leaves, old.leaves, strict=True)):
            return old
        inside = b"".join((size.to_bytes(8, "little"), *(leaf.digest for leaf in leaves)))
        return Body(size, tuple(leaves), digest_of(inside), not keep and any(map(_is_aside, leaves)))

    def put(self, file: int, body: Body, known: Body | None) -> int:
        """Give the open *file* the content *body*, by writing the blocks that differ; return the bytes written.

        Args:
            known: its content now; None: it has to be read.
        """
        size = os.fstat(file).st_size
        if size > body.size:
            os.ftruncate(file, body.size)
        written = 0
        for number, leaf in enumerate(body.leaves):
            start = number * SPAN
            count = min(SPAN, body.size - start)
            if start >= size and leaf is self._zero:
                continue  # a hole
            if known is None:
                differ = self._differing(file, start, count, leaf)
            elif number < len(known.leaves):
                differ = _changed(known.leaves[number], leaf)
            else:
                differ = range(len(leaf.places))
            content = memoryview(self._content(leaf, count)) if differ else memoryview(b"")
            for first, behind in _runs(differ):
                piece = content[first * BLOCK : min(behind * BLOCK, count)]
                write(file, piece, start + first * BLOCK)
                written += len(piece)
        if os.fstat(file).st_size < body.size:
            os.ftruncate(file, body.size)
        return written

    def _leaf(self, count: int, old: Leaf | None, old_count: int, keep: bool) -> Leaf:
        """Return the leaf of the *count* bytes that were read; *old* is kept there, of *old_count* bytes."""
        if count == SPAN and self._live == ZEROS:
            return self._zero
        known: bytes | bytearray = b""
        if old is not None:
            known = self._content(old, old_count)
            if count == old_count and self._alike(known, count) and not (keep and _is_aside(old)):
                return old
        hashes: list[bytes] = []
        places = array("q")
        for number in range(-(-count // BLOCK)):
            start = number * BLOCK
            block = self._live_view[start : min(start + BLOCK, count)].tobytes()
            if old is not None and block == known[start : min(start + BLOCK, old_count)]:
                digest, place = old.hashes[number * DIGEST : (number + 1) * DIGEST], old.places[number]
                if keep and place >= ASIDE:
                    place = self._place(digest, block, keep)
            else:
                digest = digest_of(block)
                place = self._place(digest, block, keep)
            hashes.append(digest)
            places.append(place)
        joined = b"".join(hashes)
        leaf = Leaf(digest_of(joined), joined, places)
        if len(_pieces(places)) > SCATTERED:
            self._remember(leaf, self._live_view[:count].tobytes())
        return leaf

    def _remember(self, leaf: Leaf, content: bytes) -> None:
        self._at_hand.pop(leaf.digest, None)
        if len(self._at_hand) >= AT_HAND:
            del self._at_hand[next(iter(self._at_hand))]
        self._at_hand[leaf.digest] = content

    def _place(self, digest: bytes, block: bytes, keep: bool) -> int:
        place = self._kept.find(digest)
        if place is None and not keep:
            place = self._aside.find(digest)
        return (self._kept if keep else self._aside).add(digest, block) if place is None else place

    def _differing(self, file: int, start: int, count: int, leaf: Leaf) -> Sequence[int]:
        """Return the numbers of the blocks of *leaf* that are not in the open *file* at *start*."""
        known = self._content(leaf, count)
        have = min(self._read(file, start), count)
        if have == count and self._alike(known, count):
            return ()
        spans = [slice(first, min(first + BLOCK, count)) for first in range(0, count, BLOCK)]
        return [n for n, at in enumerate(spans) if at.stop > have or self._live[at] != known[at]]

    def _alike(self, known: bytes | bytearray, count: int) -> bool:
        """Tell whether the first *count* bytes that were read are those of *known*."""
        if count == SPAN:
            return self._live == known  # without a copy
        return self._live[:count] == known[:count]

    def _read(self, file: int, start: int) -> int:
        """Read a span of the open *file*, and return how many bytes there were."""
        count = fill(file, self._live_view, start)
        self.read_bytes += count
        return count

    def _content(self, leaf: Leaf, count: int) -> bytes | bytearray:
        """Return what begins with the *count* bytes of *leaf*; it is true until the next call."""
        content = self._at_hand.get(leaf.digest)
        if content is not None:
            self._remember(leaf, content)
            return content
        pieces = _pieces(leaf.places)
        for first, behind in pieces:
            place = leaf.places[first]
            area = self._kept if place < ASIDE else self._aside
            piece = self._known_view[first * BLOCK : min(behind * BLOCK, count)]
            if fill(area.file, piece, place - area.first) != len(piece):
                raise OSError(f"what was kept of the agent's files is gone: {len(piece)} bytes at {place}")
        if len(pieces) > SCATTERED:
            self._remember(leaf, self._known_view[:count].tobytes())
        return self._known


def _pieces(places: Sequence[int]) -> list[tuple[int, int]]:
    """Return each run of blocks whose *places* follow one another, as its first one and the one behind its last."""
    found: list[tuple[int, int]] = []
    first, expected = 0, places[0]
    for number, place in enumerate(places):
        if place != expected:
            found.append((first, number))
            first = number
        expected = place + BLOCK
    found.append((first, len(places)))
    return found


def _is_aside(leaf: Leaf) -> bool:
    """Tell whether some of *leaf* is kept for a while only."""
    return max(leaf.places) >= ASIDE


def _changed(old: Leaf, new: Leaf) -> Sequence[int]:
    """Return the numbers of the blocks of *new* that are not in *old*."""
    if old is new or old.digest == new.digest:
        return ()
    starts = range(0, len(new.hashes), DIGEST)
    return [n for n, at in enumerate(starts) if new.hashes[at : at + DIGEST] != old.hashes[at : at + DIGEST]]


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield each run of successive *numbers*, as its first one and the one behind its last."""
    first = behind = -1
    for number in numbers:
        if number != behind:
            if behind > first:
                yield first, behind
            first = number
        behind = number + 1
    if behind > first:
        yield first, behind
