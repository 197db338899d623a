"""The events of one run as they are looked up, whether it happened as a whole or was put together of others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from chaos.events import Event
from chaos.index import Index
from chaos.journal import AnyEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

_Kind = TypeVar("_Kind", bound=Event)


@dataclass(frozen=True)
class Lookup:
    """What happened in a run, never changed."""

    events: Sequence[AnyEvent]

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(self.events))  # a live journal's list goes on growing

    @cached_property
    def index(self) -> Index:
        """Where to look events up."""
        return Index(self.events)

    def all(self, kind: type[_Kind]) -> Sequence[_Kind]:
        """Return the events of that *kind*, in order."""
        return self.index.all(kind)

    def where(
        self,
        kind: type[_Kind],
        name: Hashable,
        holds: Callable[[_Kind], object],
        *,
        against: Lookup | None = None,
        after: AnyEvent | None = None,
    ) -> tuple[_Kind, ...]:
        """Return the events of *kind* for which *holds* is true.

        Args:
            name: tells *holds* from other conditions: what it says of an event is remembered.
            holds: looks neither at the time nor at the attempt of the event.
            against: what it compares the event with, besides what is in *name*.
            after: only events that come after this one.
        """
        begin = 0 if after is None else self.index.place(after) + 1
        return self.index.where(kind, name, holds, None if against is None else against.index, begin)

    def total(self, kind: type[_Kind], name: Hashable, value: Callable[[_Kind], int]) -> int:
        """Return the sum of *value* over the events of *kind*; *name* and *value* are as in `where`."""
        return self.index.total(kind, name, value)

    def _all(self, kind: type[_Kind]) -> tuple[_Kind, ...]:
        return tuple(self.all(kind))
