"""A stretch of a run, in which the events of a kind are found without a look at the others."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar, overload

if TYPE_CHECKING:
    from chaos.index import Index
    from chaos.journal import AnyEvent

_Kind = TypeVar("_Kind")


class Stretch(Sequence["AnyEvent"]):
    """The *events* of *index* from the place *begin* on."""

    def __init__(self, index: Index, events: Sequence[AnyEvent], begin: int) -> None:
        self._index, self._events, self._begin = index, events, begin

    def __len__(self) -> int:
        return len(self._events)

    @overload
    def __getitem__(self, index: int) -> AnyEvent: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[AnyEvent]: ...

    def __getitem__(self, index: int | slice) -> AnyEvent | Sequence[AnyEvent]:
        return self._events[index]

    def __iter__(self) -> Iterator[AnyEvent]:
        return iter(self._events)

    def __reversed__(self) -> Iterator[AnyEvent]:
        return reversed(self._events)

    def all(self, kind: type[_Kind]) -> Iterator[_Kind]:
        """Return the events of that *kind*, in order."""
        places = self._index.places(kind, "any", _is_any)  # type: ignore[type-var]
        end = bisect_left(places, self._begin + len(self._events))
        return (self._index.at(places[n]) for n in range(bisect_left(places, self._begin), end))  # type: ignore[misc]


def every(events: Sequence[AnyEvent], kind: type[_Kind]) -> Iterator[_Kind]:
    """Return those of *events* that are of that *kind*, in order."""
    if isinstance(events, Stretch):
        return events.all(kind)
    return (event for event in events if isinstance(event, kind))


def _is_any(event: object) -> bool:
    return True
