"""What a strategy leaves in the durable zone, as a fault sees it: a list of stored deltas that can be damaged.

One module per storage format, written against the format and not against the runtime. What is on a server is found by
the lease that the run has there (`Durable.leases`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

from chaos.durable import Durable


@dataclass(frozen=True, order=True)
class Delta:
    """One stored increment.

    *order* counts from 0 (oldest), *row* finds it in the store, *size* is in bytes. *live* tells whether a resume
    reads it: a delta before the newest snapshot is history, and damage to it is harmless.
    """

    order: int
    row: int
    size: int
    live: bool


class Tail(NamedTuple):
    """The last write to a store: it takes up *begin* to *end* of the file *path*, written in units of *unit* bytes."""

    path: Path
    begin: int
    end: int
    unit: int = 1


class Store(Protocol):
    """A frozen dataclass without fields; the agent is not running while it is used."""

    @property
    def linked(self) -> bool:
        """Whether records name the one before them, so that the link can be damaged by itself."""
        ...

    @property
    def whole(self) -> str:
        """Why a crash never leaves a part of a write to it, or where that cannot be brought about; "" if it can."""
        ...

    def deltas(self, durable: Durable) -> tuple[Delta, ...]:
        """Return the deltas stored in the *durable* zone, oldest first; none if there is no store yet."""
        ...

    def read(self, durable: Durable, delta: Delta) -> bytes:
        """Return the stored bytes of *delta*; b"" if it is gone."""
        ...

    def write(self, durable: Durable, delta: Delta, data: bytes) -> None:
        """Replace the stored bytes of *delta*."""
        ...

    def delete(self, durable: Durable, delta: Delta) -> None:
        """Remove *delta*."""
        ...

    def duplicate(self, durable: Durable, delta: Delta) -> None:
        """Store *delta* a second time, right behind itself."""
        ...

    def swap(self, durable: Durable, one: Delta, other: Delta) -> None:
        """Have *one* and *other* change places: each holds the bytes of the other."""
        ...

    def links(self, durable: Durable) -> tuple[Delta, ...]:
        """Return the links on the way from the newest record back, oldest first; a live one is followed by a resume."""
        ...

    def parent(self, durable: Durable, link: Delta) -> str:
        """Return what *link* leads to; "" if nothing."""
        ...

    def relink(self, durable: Durable, link: Delta, parent: str) -> None:
        """Have *link* lead to *parent*; to nothing if that is ""."""
        ...

    def tail(self, durable: Durable) -> Tail | None:
        """Return where the last write is, of which a crash may leave a part; None if there is none."""
        ...

    def thread(self, durable: Durable) -> str:
        """Return where `chaos.audit` finds what LangGraph stored: a path or an address; "" if it is another format."""
        ...


class Plain:
    """What most formats have in common: no links, nothing that can be torn, nothing for an audit of LangGraph's."""

    linked: ClassVar[bool] = False
    whole: ClassVar[str] = "of a write to it there is all or nothing"

    def swap(self: Store, durable: Durable, one: Delta, other: Delta) -> None:
        first, second = self.read(durable, one), self.read(durable, other)
        self.write(durable, one, second)
        self.write(durable, other, first)

    def links(self, durable: Durable) -> tuple[Delta, ...]:
        return ()

    def parent(self, durable: Durable, link: Delta) -> str:
        return ""

    def relink(self, durable: Durable, link: Delta, parent: str) -> None:
        raise NotImplementedError("the format has no links")

    def tail(self, durable: Durable) -> Tail | None:
        return None

    def thread(self, durable: Durable) -> str:
        return ""


def digest(store: Store, durable: Durable) -> tuple[int, str]:
    """Return the number of deltas and a digest over all their bytes and links, read back from the *store*."""
    deltas = store.deltas(durable)
    found = hashlib.blake2b(digest_size=8)
    for delta in deltas:
        data = store.read(durable, delta)
        found.update(len(data).to_bytes(8, "big") + data)
    for link in store.links(durable):
        found.update(f"{link.row} {store.parent(durable, link)}\n".encode())
    return len(deltas), found.hexdigest()
