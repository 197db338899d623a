"""The events of one run, found by kind and by what is true of them, in time that depends on what is found."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

from chaos.conversations import Conversations
from chaos.events import Event
from chaos.events.seen import Asked, Reached
from chaos.joined import Window
from chaos.plan import STEP_PHASES
from chaos.stretch import Stretch

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from chaos.journal import AnyEvent

_Kind = TypeVar("_Kind", bound=Event)
_T = TypeVar("_T")

ACTING_PHASES = ("before_think", "before_act", "after_act")
"""Where an agent is in its step; a commit may lag behind them, on another thread."""

TOO_MANY_REQUESTS = 429

_Column: TypeAlias = "tuple[list[int], list[AnyEvent]]"


class Life(NamedTuple):
    """How far an incarnation came, as far as it showed it.

    Args:
        acted: steps that were done when it ended, its predecessors' included: it shows them by the point after the act.
        turns: the most turns in a conversation that it sent.
        furthest: the furthest step that it was in, -1 for none.
        last: place in the journal of the last point that it announced in a step, -1 for none.
    """

    acted: int = 0
    turns: int = 0
    furthest: int = -1
    last: int = -1

    def with_(self, other: Life) -> Life:
        """Return what both show together."""
        here, turns, furthest, last = self
        acted, asked, far, place = other
        return Life(max(here, acted), max(turns, asked), max(furthest, far), max(last, place))


NOTHING = Life()


class Instead(NamedTuple, Generic[_Kind]):
    """Where a run has other events of a kind than a reference: they share all before *place* and all behind these.

    Args:
        there, here: what the reference has there, and what the run has.
    """

    place: int
    there: Sequence[_Kind]
    here: Sequence[_Kind]


def shown(event: AnyEvent, place: int) -> Life:
    """Return what *event* at that place of the journal shows of its incarnation."""
    if isinstance(event, Asked):
        return Life(turns=event.turn)
    if not isinstance(event, Reached) or event.phase not in STEP_PHASES:
        return NOTHING
    return Life(event.step + 1 if event.phase == "after_act" else 0, 0, event.step, place)


def is_answered(request: Asked) -> bool:
    """Tell whether *request* got the model's answer."""
    return 200 <= request.status < 300


def is_refused(request: Asked) -> bool:
    """Tell whether *request* was refused for now."""
    return request.status == TOO_MANY_REQUESTS or request.status >= 500


def answered_turn(request: Asked) -> int | None:
    """Return the turn that *request* got the model's answer for; None if it got none."""
    return request.turn if is_answered(request) else None


def prompt_of(request: Asked) -> str:
    """Return the digest of what *request* asks: one to find requests by."""
    return request.prompt


def _is_acting(point: Reached) -> bool:
    return point.phase in ACTING_PHASES


class Index:
    """Looks *events* up. What it has once looked for, it remembers by a name.

    A condition or value that is looked for looks neither at the time nor at the attempt of an event: these change where
    a run is put together of others.
    """

    def __init__(self, events: Sequence[AnyEvent] = ()) -> None:
        self._given = events
        self._places: dict[tuple[type[Event], Hashable], list[int]] = {}
        self._sums: dict[tuple[type[Event], Hashable], list[int]] = {}
        self._made: dict[Hashable, object] = {}
        self._groups: dict[tuple[type[Event], Hashable], dict[Hashable, list[int]]] = {}

    @cached_property
    def events(self) -> Sequence[AnyEvent]:
        """All events."""
        return self._given

    @cached_property
    def columns(self) -> dict[type[Event], _Column]:
        """The events of each kind, behind their places in the journal."""
        columns: dict[type[Event], _Column] = {}
        for place, event in enumerate(self.events):
            numbers, events = columns.setdefault(type(event), ([], []))
            numbers.append(place)
            events.append(event)
        return columns

    @cached_property
    def attempts(self) -> frozenset[int]:
        """The incarnations that events belong to."""
        return frozenset(event.attempt for event in self.events)

    @cached_property
    def before_first(self) -> int | None:
        """How many events come before the first incarnation; None if there is more than one incarnation."""
        outside = next((place for place, event in enumerate(self.events) if event.attempt), len(self.events))
        alone = all(self.events[place].attempt == 1 for place in range(outside, len(self.events)))
        talks = any(place < outside for kind in (Asked, Reached) for place in self.column(kind)[0][:1])
        return outside if alone and not talks else None

    def __len__(self) -> int:
        return len(self.events)

    def column(self, kind: type[Event]) -> _Column:
        """Return the places and the events of that *kind*."""
        return self.columns.get(kind) or ([], [])

    def all(self, kind: type[_Kind]) -> Sequence[_Kind]:
        """Return the events of that *kind*, in order."""
        return self.column(kind)[1]  # type: ignore[return-value]

    def window(self, begin: int, end: int) -> Stretch:
        """Return the events at the places from *begin* up to *end*."""
        return Stretch(self, Window(self.events, begin, end), begin)

    def place(self, event: AnyEvent) -> int:
        """Return the place of *event*."""
        numbers, events = self.column(type(event))
        return numbers[events.index(event)]

    def places(
        self, kind: type[_Kind], name: Hashable, holds: Callable[[_Kind], object], against: Index | None = None
    ) -> list[int]:
        """Return the places of the events of *kind* for which *holds* is true; *against* is what it compares with."""
        ours = against is None or against is self
        if ours and (kind, name) in self._places:
            return self._places[kind, name]
        found = [place for place, event in zip(*self.column(kind), strict=True) if holds(event)]  # type: ignore[arg-type]
        if ours:
            self._places[kind, name] = found
        return found

    def where(
        self, kind: type[_Kind], name: Hashable, holds: Callable[[_Kind], object], against: Index | None, begin: int
    ) -> tuple[_Kind, ...]:
        """Return those events, from the place *begin* on."""
        found = self.places(kind, name, holds, against)
        return tuple(self.events[place] for place in found if place >= begin)  # type: ignore[misc]

    def once(self, name: Hashable, make: Callable[[Index], _T]) -> _T:
        """Return what *make* makes of these events; it is made when it is first asked for by that name."""
        if name not in self._made:
            self._made[name] = make(self)
        return self._made[name]  # type: ignore[return-value]

    def sums(self, kind: type[_Kind], name: Hashable, value: Callable[[_Kind], int]) -> list[int]:
        """Return the sums of *value* over the first 0, 1, 2, ... events of *kind*."""
        if (kind, name) not in self._sums:
            sums = [0]
            for event in self.all(kind):
                sums.append(sums[-1] + value(event))
            self._sums[kind, name] = sums
        return self._sums[kind, name]

    def total(self, kind: type[_Kind], name: Hashable, value: Callable[[_Kind], int]) -> int:
        """Return the sum of *value* over all events of *kind*."""
        return self.sums(kind, name, value)[-1]

    @cached_property
    def lives(self) -> dict[int, Life]:
        """What each incarnation showed, by its number."""
        acted, turns, furthest, last = (dict.fromkeys(self.attempts, least) for least in NOTHING)
        for request in self.all(Asked):
            turns[request.attempt] = max(turns[request.attempt], request.turn)
        points = self.all(Reached)
        for place, point in zip(self.column(Reached)[0], points, strict=True):
            if point.phase in STEP_PHASES:
                attempt, step = point.attempt, point.step
                last[attempt], furthest[attempt] = place, max(furthest[attempt], step)
                if point.phase == "after_act":
                    acted[attempt] = max(acted[attempt], step + 1)
        seen = {event.attempt for event in (*self.all(Asked), *points)}
        return {one: Life(acted[one], turns[one], furthest[one], last[one]) for one in seen}

    def points(self, attempt: int) -> Sequence[Reached]:
        """Return the points that the incarnation *attempt* announced, in order."""
        return self._points.get(attempt, [])

    @cached_property
    def _points(self) -> dict[int, list[Reached]]:
        points: dict[int, list[Reached]] = {}
        for point in self.all(Reached):
            points.setdefault(point.attempt, []).append(point)
        return points

    @cached_property
    def conversations(self) -> Conversations:
        """The conversations of all requests."""
        return Conversations(self.all(Asked))

    def firsts(self, name: Hashable, holds: Callable[[Asked], bool]) -> dict[int, Asked]:
        """Return the first request of each incarnation for which *holds* is true, in order."""
        first: dict[int, Asked] = {}
        for request in self.where(Asked, name, holds, None, 0):
            first.setdefault(request.attempt, request)
        return first

    def groups(
        self, kind: type[_Kind], name: Hashable, key: Callable[[_Kind], Hashable | None]
    ) -> dict[Hashable, list[int]]:
        """Return the places of the events of *kind* by what *key* gives for them; None is no key."""
        if (kind, name) not in self._groups:
            groups: dict[Hashable, list[int]] = {}
            for place, event in zip(*self.column(kind), strict=True):
                if (found := key(event)) is not None:  # type: ignore[arg-type]
                    groups.setdefault(found, []).append(place)
            self._groups[kind, name] = groups
        return self._groups[kind, name]

    def having(
        self, kind: type[_Kind], name: Hashable, key: Callable[[_Kind], Hashable | None], value: Hashable
    ) -> list[tuple[int, _Kind]]:
        """Return the events of *kind* for which *key* gives *value*, with their places."""
        return [(place, self.events[place]) for place in self.groups(kind, name, key).get(value, ())]  # type: ignore[misc]

    def lacking(
        self, kind: type[_Kind], name: Hashable, key: Callable[[_Kind], Hashable | None], reference: Index
    ) -> set[Hashable]:
        """Return what *key* gives for events of *reference* and for none of these."""
        return set(reference.groups(kind, name, key)) - self.groups(kind, name, key).keys()

    def instead(self, kind: type[_Kind], reference: Index) -> Instead[_Kind]:
        """Return where the events of *kind* are others than in *reference*; time and attempt are no difference."""
        return Instead(0, reference.all(kind), self.all(kind))

    def at(self, place: int) -> AnyEvent:
        """Return the event at that place."""
        return self.events[place]

    def step_at(self, place: int) -> int | None:
        """Return the step that the incarnation of the event at *place* was in by then; None if it announced none."""
        attempt, acting = self.at(place).attempt, self.places(Reached, "acting", _is_acting)
        before = (self.at(acting[number]) for number in range(bisect_left(acting, place) - 1, -1, -1))
        return next((point.step for point in before if point.attempt == attempt), None)  # type: ignore[union-attr]

    @cached_property
    def sweeps(self) -> dict[type[Event], tuple[list[Life], list[Life]]]:
        """What the first 0, 1, 2, ... requests and points show, by kind, and what all from the 0th, 1st, ... on do."""
        sweeps = {}
        for kind in (Asked, Reached):
            each = [shown(event, place) for place, event in zip(*self.column(kind), strict=True)]
            forward, backward = (list(accumulate(lives, Life.with_, initial=Life())) for lives in (each, each[::-1]))
            sweeps[kind] = forward, backward[::-1]
        return sweeps  # type: ignore[return-value]
