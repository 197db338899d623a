"""Everything seen in one run, in order, appended to disk as it happens.

The events of a run are the lines of its `journal.jsonl`. Checks, numbers and reports work on events alone, so that an
old journal can be judged again. A run that was derived from a recorded one has only its own events there: its first
line names the recorded journal and how many of its events come first, its last line from which one on it ends as that.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from chaos.events import Event
from chaos.events.done import Done
from chaos.events.seen import Seen
from chaos.joined import Joined

AnyEvent = Seen | Done

_Event = TypeVar("_Event", bound=Event)

CLOCK_DIGITS = 6
"""Digits of a second in the times of events: the clock has microseconds, what is behind them is noise of floats."""

NAMED_JOURNALS = 4
"""Journals that others name are kept in memory when they were read: the runs of a cell share one."""


class Begun(msgspec.Struct, frozen=True, tag_field="event", tag="begun"):
    """The first line of a derived run's journal: the first *events* events of *journal* come first."""

    journal: str  # relative to the folder of this one
    events: int


class GoesOn(msgspec.Struct, frozen=True, tag_field="event", tag="goes_on"):
    """Its last line: all events of that journal follow from the *events*-th on, as those of the incarnation *attempt*.

    They come as long after each other as there (see `moved`).
    """

    events: int
    attempt: int


_decoder: msgspec.json.Decoder[AnyEvent | Begun | GoesOn] = msgspec.json.Decoder(AnyEvent | Begun | GoesOn)
_encoder = msgspec.json.Encoder()


class Journal:
    """An append-only JSONL file of events, safe to append to from several threads.

    Args:
        path: the file; its folder exists.
        clock: seconds, monotonic; handed in so that tests are exact.
        begun: the path of another journal and its first events: the run has begun as that one did. They are named in
            the file, not written again, and the time goes on from the last of them.
    """

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float] = time.monotonic,
        begun: tuple[Path, Sequence[AnyEvent]] | None = None,
    ) -> None:
        self.path = path
        self.attempt = 0
        self.own: list[AnyEvent] = []
        """The events that happened in this run itself, and are written here."""
        self._before: Sequence[AnyEvent] = begun[1] if begun else ()
        self._acting = threading.local()
        self._clock = clock
        self._began = clock() - (self._before[-1].at if self._before else 0.0)
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if begun:
            name = os.path.relpath(begun[0], path.parent)
            self._write(Begun(name, len(self._before)))

    @property
    def events(self) -> Sequence[AnyEvent]:
        """All events of the run until now, those that it has begun with included; it goes on growing."""
        return Joined(self._before, self.own) if self._before else self.own

    def last(self, kind: type[_Event]) -> _Event | None:
        """Return the last event of that *kind* until now, None if there is none."""
        return next((event for event in reversed(self.events) if isinstance(event, kind)), None)

    def now(self) -> float:
        """Return the seconds since the run began, to the microsecond."""
        return round(self._clock() - self._began, CLOCK_DIGITS)

    @property
    def actor(self) -> int:
        """The attempt that this thread acts for: the current one, unless `acting` says another."""
        return getattr(self._acting, "attempt", 0) or self.attempt

    def add(self, kind: type[AnyEvent], **fields: Any) -> None:
        """Append an event of *kind* that happens now, in the current attempt or the one that this thread acts for."""
        with self._lock:
            event = kind(at=self.now(), attempt=self.actor, **fields)
            self.own.append(event)
            self._write(event)

    def put(self, event: AnyEvent) -> None:
        """Append *event*, which happened in another run, as it is."""
        with self._lock:
            self.own.append(event)
            self._write(event)

    def go_on(self, events: int) -> None:
        """Say that the run ends as the one that it has begun with does, from its event number *events* (from 0) on."""
        with self._lock:
            self._write(GoesOn(events, self.attempt))

    @contextmanager
    def acting(self, attempt: int) -> Iterator[None]:
        """Have what this thread adds belong to *attempt*, which need not be the current one; 0: the current one."""
        before = getattr(self._acting, "attempt", 0)
        self._acting.attempt = attempt
        try:
            yield
        finally:
            self._acting.attempt = before

    def close(self) -> None:
        """Close the file; the events stay readable."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, line: AnyEvent | Begun | GoesOn) -> None:
        os.write(self._file, _encoder.encode(line) + b"\n")


def moved(event: AnyEvent, attempt: int, seconds: float) -> AnyEvent:
    """Return *event* as it is in another run: of its incarnation *attempt*, *seconds* later."""
    return msgspec.structs.replace(event, attempt=attempt, at=round(event.at + seconds, CLOCK_DIGITS))


def delay(recorded: Sequence[AnyEvent], rest: int, last: AnyEvent | None) -> float:
    """Return how much later than in *recorded* the events from *rest* on come where *last* is the one before them."""
    return (last.at if last else 0.0) - (recorded[rest - 1].at if rest else 0.0)


def read(path: Path) -> tuple[AnyEvent, ...]:
    """Return the events of the journal at *path*; a torn last line (the harness was killed) is left out.

    What another journal holds of the run is read there; that one must be whole itself.

    Raises:
        msgspec.MsgspecError: it is no journal, or the one that it names does not hold what it says.
    """
    lines = _lines(path)
    own = tuple(line for line in lines if not isinstance(line, Begun | GoesOn))
    if not lines or not isinstance(lines[0], Begun):
        return own
    recorded = _recorded(path.parent / lines[0].journal)
    if len(recorded) < lines[0].events:
        raise msgspec.ValidationError(f"{lines[0].journal} has {len(recorded)} events, not {lines[0].events}")
    run = (*recorded[: lines[0].events], *own)
    if not isinstance(end := lines[-1], GoesOn):
        return run
    seconds = delay(recorded, end.events, run[-1] if run else None)
    return (*run, *(moved(event, end.attempt, seconds) for event in recorded[end.events :]))


def size(path: Path) -> int:
    """Return the bytes that are to be read for the events of the journal at *path*."""
    with path.open("rb") as file:
        line = file.readline()
    first = _decoder.decode(line) if line.endswith(b"\n") else None
    named = (path.parent / first.journal).stat().st_size if isinstance(first, Begun) else 0
    return path.stat().st_size + named


def _lines(path: Path) -> list[AnyEvent | Begun | GoesOn]:
    return [_decoder.decode(line) for line in path.read_bytes().split(b"\n")[:-1]]


def _recorded(path: Path) -> tuple[AnyEvent, ...]:
    stat = path.stat()
    return _kept(path.resolve(), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=NAMED_JOURNALS)
def _kept(path: Path, changed: int, size: int) -> tuple[AnyEvent, ...]:
    lines = _lines(path)
    if any(isinstance(line, Begun | GoesOn) for line in lines):
        raise msgspec.ValidationError(
            f"{path} is itself the journal of a derived run: only a recorded one can be named"
        )
    return tuple(lines)  # type: ignore[arg-type]  # there is no other kind of line
