"""What LangGraph's tables have in common, whatever database they are in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from chaos.stores import Delta

CHANNEL = "messages"
"""The channel that holds the conversation; the other channels are rewritten whole in every checkpoint."""


class Record(NamedTuple):
    """A stored value.

    *row* finds it, *size* is in bytes. *read* tells whether it is on the way of a resume: it belongs to the newest
    checkpoint or to an ancestor of that. *pending*: it was written after the newest checkpoint.
    """

    row: int
    size: int
    read: bool
    pending: bool


def links(checkpoints: Sequence[tuple[int, int]], supersteps: int) -> tuple[Delta, ...]:
    """Return the links between checkpoints in their order in time.

    Args:
        checkpoints: row and size of each link on the way from the newest checkpoint back, the newest first.
        supersteps: how many of them lead back to the last snapshot.
    """
    ordered = enumerate(reversed(checkpoints))
    return tuple(Delta(order, row, size, order >= len(checkpoints) - supersteps) for order, (row, size) in ordered)


def deltas(writes: Sequence[Record], updates: int, snapshots: Sequence[Record]) -> tuple[Delta, ...]:
    """Return the deltas in their order in time.

    Args:
        writes: the writes to the conversation's channel, oldest first.
        updates: how many of them the newest checkpoint counts since the last snapshot.
        snapshots: where the newest checkpoint holds the conversation whole, that value, and copies of it before it.
    """
    ours = [record for record in writes if record.read]
    live = set(ours[len(ours) - min(len(ours), updates + sum(record.pending for record in ours)) :]) | set(
        snapshots[-1:]
    )
    ordered = [
        *(record for record in writes if not record.pending),
        *snapshots,
        *(record for record in writes if record.pending),
    ]
    return tuple(Delta(order, record.row, record.size, record in live) for order, record in enumerate(ordered))
