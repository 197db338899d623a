"""Equal crash states: what one led to, told of another that is left by a death at another point."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from chaos.events.done import Injecting, Signalled
from chaos.events.seen import Asked, Exited
from chaos.plan import Point

if TYPE_CHECKING:
    from chaos.capture.moments import Moment
    from chaos.journal import AnyEvent


def stands_for(run: Moment, rest: int | None, moment: Moment) -> bool:
    """Tell whether a run that died at *run* tells what a death at *moment* leads to, whose crash state is equal.

    What the model had been asked before a death is asked again after it. A run that died later had been asked more; and
    the events from *rest* on, which it has from the recorded run, tell that only if that had come past *moment* there.
    """
    return run.events <= moment.events and (rest is None or rest >= moment.events)


def died_at(point: Point, moment: Moment, run: Moment, middle: Sequence[AnyEvent]) -> tuple[AnyEvent, ...]:
    """Return what follows a death at *point*, given the *middle* of a run that died at the earlier moment *run*.

    The disk, the servers and the services were equal; the number of the process, the time, and what the model had been
    asked before were not.
    """
    later = moment.at - run.at
    answered = cast(Container[str], moment.memory.answered)
    since = set[str]()
    told: list[AnyEvent] = []
    for event in middle:
        changes: dict[str, object] = {"at": event.at + later}
        if isinstance(event, Injecting):
            changes["point"] = str(point)
        elif isinstance(event, Signalled) and event.attempt == 1:
            changes["pid"] = moment.pid
        elif isinstance(event, Exited) and event.attempt == 1:
            changes["written_bytes"] = moment.written_bytes
        elif isinstance(event, Asked):
            changes["again"] = event.prompt in answered or event.prompt in since
            if event.status == 200:
                since.add(event.prompt)
        told.append(msgspec.structs.replace(event, **changes))
    return tuple(told)
