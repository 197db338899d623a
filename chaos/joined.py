"""Sequences one after the other, seen as one: the parts are not copied, and a part that grows goes on growing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TypeVar, overload

_T = TypeVar("_T")


class Window(Sequence[_T]):
    """The items of *whole* from *begin* up to *end*, and not one more where *whole* grows."""

    def __init__(self, whole: Sequence[_T], begin: int, end: int) -> None:
        self._whole, self._begin, self._size = whole, begin, max(0, end - begin)

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> _T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_T]: ...

    def __getitem__(self, index: int | slice) -> _T | Sequence[_T]:
        if isinstance(index, slice):
            return sliced(self, index)
        return self._whole[self._begin + _place(index, self._size)]

    def __iter__(self) -> Iterator[_T]:
        return map(self._whole.__getitem__, range(self._begin, self._begin + self._size))

    def __reversed__(self) -> Iterator[_T]:
        return map(self._whole.__getitem__, range(self._begin + self._size - 1, self._begin - 1, -1))


class Joined(Sequence[_T]):
    """The items of all *parts*, in order."""

    def __init__(self, *parts: Sequence[_T]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @overload
    def __getitem__(self, index: int) -> _T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_T]: ...

    def __getitem__(self, index: int | slice) -> _T | Sequence[_T]:
        if isinstance(index, slice):
            return sliced(self, index)
        place = _place(index, len(self))
        for part in self._parts:
            if place < len(part):
                return part[place]
            place -= len(part)
        raise IndexError(index)

    def __iter__(self) -> Iterator[_T]:
        return chain.from_iterable(self._parts)

    def __reversed__(self) -> Iterator[_T]:
        return chain.from_iterable(map(reversed, reversed(self._parts)))

    def window(self, begin: int, end: int) -> Joined[_T]:
        """Return the items from *begin* up to *end*, part by part."""
        windows, passed = [], 0
        for part in self._parts:
            first, last = max(0, begin - passed), min(len(part), end - passed)
            if first < last:
                windows.append(Window(part, first, last))
            passed += len(part)
        return Joined(*windows)


def sliced(whole: Sequence[_T], cut: slice) -> Sequence[_T]:
    """Return what *cut* takes of *whole*, without a copy where it takes neighbours in order."""
    begin, end, step = cut.indices(len(whole))
    if step != 1:
        return tuple(whole[place] for place in range(begin, end, step))
    return whole.window(begin, end) if isinstance(whole, Joined) else Window(whole, begin, end)


def _place(index: int, size: int) -> int:
    if not -size <= index < size:
        raise IndexError(f"no item {index} among {size}")
    return index % size
