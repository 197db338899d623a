"""What a strategy leaves in the durable zone, as a fault sees it: a list of stored deltas that can be damaged.

One module per storage format, written against the format and not against the runtime. What is on a server is found by
the lease that the run has there (`Durable.leases`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

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


class Store(Protocol):
    """A frozen dataclass without fields; the agent is not running while it is used."""

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
