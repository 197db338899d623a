"""A run that was derived from a recorded one, as one record: its beginning, what really happened, and its end.

What is looked for was looked for in the recorded run before, and is remembered there; so only what really happened is
looked at, however long the run is. It gives what a record of all the events gives: `tests/test_splice.py` shows it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, overload

from chaos.conversations import Conversations
from chaos.events import Event
from chaos.events.seen import Asked, Reached
from chaos.index import Index, Instead, Life
from chaos.joined import Joined, Window, sliced
from chaos.journal import AnyEvent, delay, moved
from chaos.record import Record
from chaos.stretch import Stretch

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_Kind = TypeVar("_Kind", bound=Event)


def spliced(
    reference: Record, prefix: int, middle: Sequence[AnyEvent], rest: int | None, volatile: tuple[str, ...] = ()
) -> Record:
    """Return the run that begins with the first *prefix* events of *reference* and goes on with *middle*.

    Args:
        rest: number of the event of *reference* (from 0) from which on the run ends as that one, in its last
            incarnation and as much later as *middle* took longer; None: *middle* is all that follows. The world must
            have remembered the same before that event, or what a request tells of those before it is wrong.
        volatile: paths of the state that may differ between equal runs.
    """
    recorded, middle = reference.index, tuple(middle)
    begun = Joined(Window(recorded.events, 0, prefix), middle)
    end = len(recorded.events) if rest is None else rest
    seconds = delay(recorded.events, end, begun[-1] if begun else None)
    if recorded.before_first is None:  # it has several incarnations itself: nothing is gained
        attempt = max((event.attempt for event in begun), default=0)
        return Record((*begun, *(moved(event, attempt, seconds) for event in recorded.events[end:])), volatile)
    attempt = max((int(prefix > recorded.before_first), *(event.attempt for event in middle)))
    return Spliced(reference, Joint(recorded, prefix, middle, end, attempt, seconds), volatile)


class Spliced(Record):
    """The record of such a run."""

    def __init__(self, like: Record, joint: Joint, volatile: tuple[str, ...]) -> None:
        self.__dict__.update(like=like, index=joint, volatile=volatile)

    @cached_property
    def events(self) -> Sequence[AnyEvent]:
        """All events; who needs only some of them asks for these."""
        return self.index.events


class Joint(Index):
    """The events of *recorded* up to *prefix*, *middle*, and those from *rest* on, *seconds* later in *attempt*."""

    def __init__(
        self, recorded: Index, prefix: int, middle: tuple[AnyEvent, ...], rest: int, attempt: int, seconds: float
    ) -> None:
        self._recorded, self._prefix, self._rest = recorded, prefix, rest
        self._middle = Index(middle)
        self._attempt, self._seconds = attempt, seconds
        self._moved: dict[int, AnyEvent] = {}
        self._shift = prefix + len(middle) - rest  # of places behind the middle
        super().__init__()

    @cached_property
    def events(self) -> Sequence[AnyEvent]:
        """All events, put together when somebody asks for all."""
        return tuple(self._view)

    @cached_property
    def _view(self) -> Joined[AnyEvent]:
        events = self._recorded.events
        end: Sequence[AnyEvent] = _End(self, range(self._rest, len(events)))
        return Joined(Window(events, 0, self._prefix), self._middle.events, end)

    def __len__(self) -> int:
        return self._shift + len(self._recorded.events)

    @cached_property
    def attempts(self) -> frozenset[int]:
        """The incarnations that events belong to."""
        before = self._recorded.before_first or 0
        begun = {attempt for attempt, some in ((0, min(before, self._prefix)), (1, self._prefix > before)) if some}
        ended = {self._attempt} if self._rest < len(self._recorded.events) else set()
        return self._middle.attempts | begun | ended

    def moved(self, place: int) -> AnyEvent:
        """Return the event at that place of the recorded run as it is here; the same object every time."""
        if place not in self._moved:
            self._moved[place] = moved(self._recorded.events[place], self._attempt, self._seconds)
        return self._moved[place]

    @property
    def looked_at(self) -> Sequence[AnyEvent]:
        """Those of the end that somebody has looked at: so many had to be made."""
        return tuple(self._moved.values())

    def all(self, kind: type[_Kind]) -> Sequence[_Kind]:
        """Return the events of that *kind*, in order."""
        places, events = self._recorded.column(kind)
        begin, end = self._cut(places)
        parts = Window(events, 0, begin), self._middle.all(kind), _End(self, Window(places, end, len(places)))
        return Joined(*parts)  # type: ignore[arg-type]

    def window(self, begin: int, end: int) -> Stretch:
        """Return the events at the places from *begin* up to *end*."""
        return Stretch(self, self._view.window(begin, end), begin)

    def place(self, event: AnyEvent) -> int:
        """Return the place of *event*."""
        if event in self._middle.all(type(event)):
            return self._prefix + self._middle.place(event)
        return super().place(event)

    def places(
        self, kind: type[_Kind], name: Hashable, holds: Callable[[_Kind], object], against: Index | None = None
    ) -> list[int]:
        """Return the places of the events of *kind* for which *holds* is true; *against* is what it compares with."""
        if not self._knows(against):
            return super().places(kind, name, holds, against)
        recorded = self._recorded.places(kind, name, holds)
        begin, end = self._cut(recorded)
        middle = (self._prefix + place for place in self._middle.places(kind, name, holds))
        return [*recorded[:begin], *middle, *(place + self._shift for place in recorded[end:])]

    def where(
        self, kind: type[_Kind], name: Hashable, holds: Callable[[_Kind], object], against: Index | None, begin: int
    ) -> tuple[_Kind, ...]:
        """Return those events, from the place *begin* on."""
        found = self.places(kind, name, holds, against)
        return tuple(self.at(place) for place in found if place >= begin)  # type: ignore[misc]

    def total(self, kind: type[_Kind], name: Hashable, value: Callable[[_Kind], int]) -> int:
        """Return the sum of *value* over all events of *kind*."""
        sums = self._recorded.sums(kind, name, value)
        begin, end = self._cut(self._recorded.column(kind)[0])
        return sums[begin] + self._middle.total(kind, name, value) + sums[-1] - sums[end]

    @cached_property
    def lives(self) -> dict[int, Life]:
        """What each incarnation showed, by its number."""
        lives: dict[int, Life] = {}
        for attempt, life in self._middle.lives.items():
            lives[attempt] = life._replace(last=life.last + self._prefix if life.last >= 0 else -1)
        for kind, (forward, backward) in self._recorded.sweeps.items():
            begin, end = self._cut(self._recorded.column(kind)[0])
            if begin:
                lives[1] = lives.get(1, Life()).with_(forward[begin])
            if end < len(backward) - 1:
                after = backward[end]
                after = after._replace(last=after.last + self._shift if after.last >= 0 else -1)
                lives[self._attempt] = lives.get(self._attempt, Life()).with_(after)
        return lives

    def points(self, attempt: int) -> Sequence[Reached]:
        """Return the points that the incarnation *attempt* announced, in order."""
        places, events = self._recorded.column(Reached)
        begin, end = self._cut(places)
        first: Sequence[Reached] = Window(events, 0, begin) if attempt == 1 else ()  # type: ignore[arg-type]
        last: Sequence[Reached] = _End(self, Window(places, end, len(places))) if attempt == self._attempt else ()  # type: ignore[assignment]
        return Joined(first, self._middle.points(attempt), last)

    @cached_property
    def conversations(self) -> Conversations:
        """The conversations of all requests."""
        return Conversations(self._middle.all(Asked), self._recorded.conversations)

    def firsts(self, name: Hashable, holds: Callable[[Asked], bool]) -> dict[int, Asked]:
        """Return the first request of each incarnation for which *holds* is true, in order."""
        places = self._recorded.places(Asked, name, holds)
        begin, end = self._cut(places)
        first = {1: self.at(places[0])} if begin else {}
        for request in self._middle.where(Asked, name, holds, None, 0):
            first.setdefault(request.attempt, request)
        if end < len(places):
            first.setdefault(self._attempt, self.moved(places[end]))
        return first  # type: ignore[return-value]

    def having(
        self, kind: type[_Kind], name: Hashable, key: Callable[[_Kind], Hashable | None], value: Hashable
    ) -> list[tuple[int, _Kind]]:
        """Return the events of *kind* for which *key* gives *value*, with their places."""
        recorded = self._recorded.groups(kind, name, key).get(value, [])
        begin, end = self._cut(recorded)
        middle = [self._prefix + place for place in self._middle.groups(kind, name, key).get(value, ())]
        places = [*recorded[:begin], *middle, *(place + self._shift for place in recorded[end:])]
        return [(place, self.at(place)) for place in places]  # type: ignore[misc]

    def lacking(
        self, kind: type[_Kind], name: Hashable, key: Callable[[_Kind], Hashable | None], reference: Index
    ) -> set[Hashable]:
        """Return what *key* gives for events of *reference* and for none of these."""
        if reference is not self._recorded:
            return super().lacking(kind, name, key, reference)
        groups, left_out = reference.groups(kind, name, key), self.instead(kind, reference).there
        gone = {found for event in left_out if (found := key(event)) is not None}
        gone -= self._middle.groups(kind, name, key).keys()
        return {one for one in gone if groups[one][0] >= self._prefix and groups[one][-1] < self._rest}

    def instead(self, kind: type[_Kind], reference: Index) -> Instead[_Kind]:
        """Return where the events of *kind* are others than in *reference*; time and attempt are no difference."""
        if reference is not self._recorded:
            return super().instead(kind, reference)
        places, events = reference.column(kind)
        begin, end = self._cut(places)
        again = _End(self, Window(places, end, begin))  # where the run went back, and ends as from there
        here = Joined(self._middle.all(kind), again)
        return Instead(self._prefix, Window(events, begin, end), here)  # type: ignore[arg-type]

    def _knows(self, against: Index | None) -> bool:
        return against is None or against is self._recorded

    def _cut(self, places: Sequence[int]) -> tuple[int, int]:
        """Return how many *places* of the recorded run are at the beginning, and from which on they are at the end."""
        return bisect_left(places, self._prefix), bisect_left(places, self._rest)

    def at(self, place: int) -> AnyEvent:
        """Return the event at that place."""
        if place < self._prefix:
            return self._recorded.events[place]
        middle = self._middle.events
        return middle[place - self._prefix] if place < self._prefix + len(middle) else self.moved(place - self._shift)


class _End(Sequence[AnyEvent]):
    """The events at these places of the recorded run, as they are in the run of *joint*."""

    def __init__(self, joint: Joint, places: Sequence[int]) -> None:
        self._joint, self._places = joint, places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> AnyEvent: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[AnyEvent]: ...

    def __getitem__(self, index: int | slice) -> AnyEvent | Sequence[AnyEvent]:
        return sliced(self, index) if isinstance(index, slice) else self._joint.moved(self._places[index])
