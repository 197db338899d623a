"""What was read before is not read again: clients send their whole conversation with every request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

_T = TypeVar("_T")

TALKS = 8
"""Conversations that are remembered: those of an agent and of some helpers, side by side."""


def common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return how many items two lists have in common at their beginning. It compares slices, which is done in C."""
    alike, size = 0, min(len(one), len(other))
    if one[:size] == other[:size]:
        return size
    while alike < size - 1:  # they agree below *alike*, and differ below *size*
        middle = (alike + size) // 2
        same = one[alike:middle] == other[alike:middle]
        alike, size = (middle, size) if same else (alike, middle)
    return alike


class Reader(Generic[_T]):
    """Reads the messages of requests; those that came in the same bytes before, at the same place, are known.

    Args:
        read: returns what a message is, given its number and its bytes; what it returns is not changed by anybody.
    """

    def __init__(self, read: Callable[[int, msgspec.Raw], _T]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._before: list[tuple[list[msgspec.Raw], list[_T]]] = []  # the latest first

    def messages(self, raw: list[msgspec.Raw]) -> list[_T]:
        """Return the messages in *raw*."""
        with self._lock:
            known = [(common(raw, old), old, read) for old, read in self._before]
        shared, _, before = max(known, key=lambda one: one[0], default=(0, [], []))
        read = before[:shared]
        read += (self._read(number, raw[number]) for number in range(shared, len(raw)))
        others = [(old, there) for alike, old, there in known if alike < len(old)]  # it takes the place of what it was
        with self._lock:
            self._before = [(raw, read), *others][:TALKS]
        return read
