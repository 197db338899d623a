"""One run as checks see it: its events, indexed once and never changed.

A step is what the agent does between two commits; a turn is one answer of the model, counted from outside in the
conversation of a request. An incarnation (attempt) lives from its `Started` to its `Exited`. One that was taken for
dead may outlive the beginning of the next: the run is that of the last one, which the supervisor believes in, and what
the others did shows in the world, in the store and on a shared disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import msgspec

from chaos.events import Event
from chaos.events.done import Audited, Injecting, PresumedDead, Released, StoreDamaged
from chaos.events.seen import Asked, Effected, Ended, Exited, Measured, Observation, Observed, Reached, Reloaded
from chaos.journal import AnyEvent
from chaos.mask import Json, masked

if TYPE_CHECKING:
    from collections.abc import Sequence

_Kind = TypeVar("_Kind", bound=Event)

_TOO_MANY_REQUESTS = 429
_RESUME_PHASES = ("before_load", "after_load")
_ACTING_PHASES = ("before_think", "before_act", "after_act")  # a commit may lag behind them, on another thread


@dataclass(frozen=True)
class Record:
    """A frozen view of one run; every property is a function of *events*, with *volatile* paths of the state masked."""

    events: Sequence[AnyEvent]
    volatile: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(self.events))  # a live journal's list goes on growing

    def _all(self, kind: type[_Kind]) -> tuple[_Kind, ...]:
        return tuple(event for event in self.events if isinstance(event, kind))

    # How it went

    @cached_property
    def attempts(self) -> int:
        """The number of incarnations."""
        return max((event.attempt for event in self.events), default=0)

    @cached_property
    def ended(self) -> str:
        """How the run ended, as `Ended.how`; "" if the journal has no end."""
        return next((event.how for event in reversed(self._all(Ended))), "")

    @property
    def finished(self) -> bool:
        """Whether the agent came to the end of its work."""
        return self.ended == "finished"

    @cached_property
    def points(self) -> tuple[Reached, ...]:
        """The points that the agent announced, in order."""
        return self._all(Reached)

    @cached_property
    def exits(self) -> tuple[Exited, ...]:
        """The ends of all incarnations, in the order of their beginnings."""
        return tuple(sorted(self._all(Exited), key=lambda event: event.attempt))

    @cached_property
    def presumed_dead(self) -> frozenset[int]:
        """The attempts that were taken for dead and lived on beside the next."""
        return frozenset(event.attempt for event in self._all(PresumedDead))

    @cached_property
    def crashes(self) -> tuple[Exited, ...]:
        """The ends that were none of the agent's will: a status other than 0, and not the harness stopping the run.

        How one ends that was taken for dead is no matter: the next one had taken over long before.
        """
        bad = tuple(event for event in self.exits if event.status != 0 and event.attempt not in self.presumed_dead)
        stopped = self.ended == "deadline" and bad and bad[-1].attempt == self.attempts
        return bad[:-1] if stopped else bad

    @cached_property
    def injections(self) -> tuple[Injecting, ...]:
        """The moments at which planned faults were injected."""
        return self._all(Injecting)

    @cached_property
    def damages(self) -> tuple[StoreDamaged, ...]:
        """What was done to stored bytes."""
        return self._all(StoreDamaged)

    @cached_property
    def releases(self) -> tuple[Released, ...]:
        """The other releases of the target that the run went on with."""
        return self._all(Released)

    @cached_property
    def changes(self) -> tuple[str, ...]:
        """Paths of the state that those releases made different by themselves."""
        return tuple(dict.fromkeys(path for release in self.releases for path in release.changes))

    def is_released(self, event: Event) -> bool:
        """Tell whether *event* comes from another release than the run began with."""
        return any(event.attempt > release.attempt for release in self.releases)

    @cached_property
    def audits(self) -> tuple[Audited, ...]:
        """What the harness found in the stored threads of LangGraph: when they were damaged, and at the end."""
        return self._all(Audited)

    @property
    def came_to_end(self) -> bool:
        """Whether the last incarnation announced that all its work is done; an exit status alone is its word."""
        return any(self._at_end(point) for point in self.points)

    @cached_property
    def completed(self) -> frozenset[int]:
        """The attempts that came to the end of all work."""
        at_end = {point.attempt for point in self.points if point.phase == "finished"}
        return frozenset(at_end | ({self.attempts} if self.finished else set()))

    # What it left

    @cached_property
    def final_observation(self) -> Observation | None:
        """The sandbox as seen from outside when all work was done; None if the run did not come that far."""
        seen = (event.seen for event in reversed(self._all(Observed)) if self._at_end(event))
        return next(seen, None)

    @cached_property
    def resume_observations(self) -> tuple[Observed, ...]:
        """The sandbox as later incarnations found it, and as it was after they had loaded their store."""
        return tuple(event for event in self._all(Observed) if event.attempt > 1 and event.phase in _RESUME_PHASES)

    @cached_property
    def final_state(self) -> Json:
        """The state that the living agent announced when all work was done; None if it announced none."""
        at_end = (self._state(point.snapshot) for point in reversed(self.points) if self._at_end(point))
        return next((state for state in at_end if state is not None), None)

    @cached_property
    def reloaded(self) -> Reloaded | None:
        """What another process read from the store after the run; None if nobody tried."""
        return next(reversed(self._all(Reloaded)), None)

    @cached_property
    def reloaded_state(self) -> Json:
        """The state that another process read from the store; None if it read none."""
        return self._state(self.reloaded.state) if self.reloaded else None

    @cached_property
    def stored_bytes(self) -> int:
        """The bytes in the durable zone at the end; 0 if they were not measured."""
        return next((event.stored_bytes for event in reversed(self._all(Measured))), 0)

    # What it said to the model

    @cached_property
    def asked(self) -> tuple[Asked, ...]:
        """Every request that the model endpoint received."""
        return self._all(Asked)

    @cached_property
    def answered(self) -> tuple[Asked, ...]:
        """The requests that got the model's answer."""
        return tuple(request for request in self.asked if 200 <= request.status < 300)

    @cached_property
    def refused(self) -> tuple[Asked, ...]:
        """The requests that the endpoint refused for now: a rate limit or an overload."""
        return tuple(r for r in self.asked if r.status == _TOO_MANY_REQUESTS or r.status >= 500)

    @cached_property
    def resumed_turn(self) -> dict[int, int]:
        """For each attempt that got an answer: the model turns that its first answered request knew of."""
        turns: dict[int, int] = {}
        for request in self.answered:
            turns.setdefault(request.attempt, request.turn)
        return turns

    @cached_property
    def first_by_turn(self) -> dict[int, Asked]:
        """The first answered request of each turn."""
        turns: dict[int, Asked] = {}
        for request in self.answered:
            turns.setdefault(request.turn, request)
        return turns

    @cached_property
    def messages(self) -> dict[str, Json]:
        """Each message of the run by its prefix digest: a request carries only those that are new."""
        table: dict[str, Json] = {}
        for request in self.asked:
            new = _decode(request.messages)
            if isinstance(new, list) and 0 < len(new) <= len(request.prefixes):
                table.update(zip(request.prefixes[-len(new) :], new, strict=True))
        return table

    def conversation(self, request: Asked) -> list[Json]:
        """Return the messages of *request*, without the system's."""
        messages = (self.messages.get(prefix) for prefix in request.prefixes)
        return [one for one in messages if not (isinstance(one, dict) and one.get("role") == "system")]

    def asked_after(self, event: AnyEvent) -> tuple[Asked, ...]:
        """Return the answered requests that came after *event*."""
        position = self.events.index(event)
        return tuple(e for e in self.events[position:] if isinstance(e, Asked) and 200 <= e.status < 300)

    # What it did to the outside world

    @cached_property
    def effects(self) -> tuple[Effected, ...]:
        """The effects ledger; calls that the service recognised and ignored included."""
        return self._all(Effected)

    @cached_property
    def effect_steps(self) -> tuple[int | None, ...]:
        """For each of *effects*: the step that its incarnation was in, None if it announces no steps."""
        steps: dict[int, int] = {}
        found: list[int | None] = []
        for event in self.events:
            if isinstance(event, Reached) and event.phase in _ACTING_PHASES:
                steps[event.attempt] = event.step
            elif isinstance(event, Effected):
                found.append(steps.get(event.attempt))
        return tuple(found)

    def _state(self, raw: msgspec.Raw) -> Json:
        return masked(_decode(raw), self.volatile)

    def _at_end(self, event: Observed | Reached) -> bool:
        return event.phase == "finished" and event.attempt == self.attempts


def _decode(raw: msgspec.Raw) -> Json:
    value: Json = msgspec.json.decode(raw)
    return value
