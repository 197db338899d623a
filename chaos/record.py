"""One run as checks see it: its events, indexed once and never changed.

A step is what the agent does between two commits; a turn is one answer of the model, counted from outside in the
conversation of a request. An incarnation (attempt) lives from its `Started` to its `Exited`. One that was taken for
dead may outlive the beginning of the next: the run is that of the last one, which the supervisor believes in, and what
the others did shows in the world, in the store and on a shared disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from chaos.conversations import Conversations
from chaos.events import NULL, Event
from chaos.events.done import Audited, Injecting, PresumedDead, Released, StoreDamaged
from chaos.events.seen import Asked, Effected, Ended, Exited, Measured, Observation, Observed, Reached, Reloaded
from chaos.index import ACTING_PHASES, answered_turn, is_answered, is_refused
from chaos.journal import AnyEvent
from chaos.lookup import Lookup
from chaos.mask import Json, masked

if TYPE_CHECKING:
    from chaos.conversations import Conversation

_RESUME_PHASES = ("before_load", "after_load")


@dataclass(frozen=True)
class Record(Lookup):
    """A frozen view of one run; every property is a function of *events*, with *volatile* paths of the state masked.

    Where a run was put together of others (`chaos.splice`), what returns a whole tuple takes as long as the run is;
    `all`, `where`, `total`, `index` and what is made of them are fast.
    """

    volatile: tuple[str, ...] = ()

    @cached_property
    def like(self) -> Record | None:
        """The run that this one was put together of; None if it happened as a whole."""
        return None

    # How it went

    @cached_property
    def attempts(self) -> int:
        """The number of incarnations."""
        return max(self.index.attempts, default=0)

    @cached_property
    def ended(self) -> str:
        """How the run ended, as `Ended.how`; "" if the journal has no end."""
        return next((event.how for event in reversed(self.all(Ended))), "")

    @property
    def finished(self) -> bool:
        """Whether the agent came to the end of its work."""
        return self.ended == "finished"

    @cached_property
    def points(self) -> tuple[Reached, ...]:
        """The points that the agent announced, in order."""
        return self._all(Reached)

    @cached_property
    def states(self) -> dict[tuple[int, str], set[str]]:
        """The digests of the agent's state that it announced, by step and phase."""
        states: dict[tuple[int, str], set[str]] = {}
        for point in self.all(Reached):
            if point.state is not None:
                states.setdefault((point.step, point.phase), set()).add(point.state)
        return states

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
        return any(self._at_end(point) for point in self._finished_points)

    @cached_property
    def completed(self) -> frozenset[int]:
        """The attempts that came to the end of all work."""
        at_end = {point.attempt for point in self._finished_points}
        return frozenset(at_end | ({self.attempts} if self.finished else set()))

    # What it left

    @cached_property
    def final_observation(self) -> Observation | None:
        """The sandbox as seen from outside when all work was done; None if the run did not come that far."""
        seen = (event.seen for event in reversed(self.all(Observed)) if self._at_end(event))
        return next(seen, None)

    @cached_property
    def resume_observations(self) -> tuple[Observed, ...]:
        """The sandbox as later incarnations found it, and as it was after they had loaded their store."""
        return tuple(event for event in self._all(Observed) if event.attempt > 1 and event.phase in _RESUME_PHASES)

    @cached_property
    def final_snapshot(self) -> msgspec.Raw | None:
        """The state that the living agent announced when all work was done, as it announced it; None if none."""
        at_end = (point.snapshot for point in reversed(self._finished_points) if self._at_end(point))
        return next((raw for raw in at_end if self._state(NULL) is not None or raw != NULL), None)

    @cached_property
    def final_state(self) -> Json:
        """That state; None if it announced none."""
        if self.like is not None and self.ends_alike(self.like):
            return self.like.final_state
        return None if self.final_snapshot is None else self._state(self.final_snapshot)

    @cached_property
    def reloaded(self) -> Reloaded | None:
        """What another process read from the store after the run; None if nobody tried."""
        return next(reversed(self.all(Reloaded)), None)

    @cached_property
    def reloaded_state(self) -> Json:
        """The state that another process read from the store; None if it read none."""
        if self.like is not None and self.reloads_alike(self.like):
            return self.like.reloaded_state
        return self._state(self.reloaded.state) if self.reloaded else None

    @cached_property
    def live_state(self) -> Json:
        """The state that the agent held when it ended, as it left it beside its store; None if it left none."""
        return self._state(self.reloaded.live) if self.reloaded else None

    @cached_property
    def is_read_back(self) -> bool:
        """Whether another process read a state from the store."""
        return self.reloaded is not None and (self.reloaded.state != NULL or self._state(NULL) is not None)

    @cached_property
    def stores_another_conversation(self) -> bool:
        """Whether another process read other messages than the agent ended with; no if one of them has none."""
        ended, stored = (
            state.get("messages") if isinstance(state, dict) else None
            for state in (self.final_state, self.reloaded_state)
        )
        return ended is not None and stored is not None and ended != stored

    def ends_alike(self, other: Record) -> bool:
        """Tell whether the agent announced the very state at the end that it did in *other*."""
        return self.volatile == other.volatile and self.final_snapshot == other.final_snapshot

    def reloads_alike(self, other: Record) -> bool:
        """Tell whether another process read the very state that it read in *other*."""
        here, there = self.reloaded, other.reloaded
        if here is None or there is None:
            return False
        return self.volatile == other.volatile and here.state == there.state

    @cached_property
    def stored_bytes(self) -> int:
        """The bytes in the durable zone at the end; 0 if they were not measured."""
        return next((event.stored_bytes for event in reversed(self.all(Measured))), 0)

    # What it said to the model

    @cached_property
    def asked(self) -> tuple[Asked, ...]:
        """Every request that the model endpoint received."""
        return self._all(Asked)

    @cached_property
    def answered(self) -> tuple[Asked, ...]:
        """The requests that got the model's answer."""
        return self.where(Asked, "answered", is_answered)

    @cached_property
    def refused(self) -> tuple[Asked, ...]:
        """The requests that the endpoint refused for now: a rate limit or an overload."""
        return self.where(Asked, "refused", is_refused)

    @cached_property
    def resumed_turn(self) -> dict[int, int]:
        """For each attempt that got an answer: the model turns that its first answered request knew of."""
        first = self.index.firsts("answered", is_answered)
        return {attempt: request.turn for attempt, request in first.items()}

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
        return Conversations(self.asked).messages()

    def message(self, digest: str) -> Json:
        """Return the message that the conversation up to it is digested by *digest*; None if nobody sent it."""
        return self.index.conversations.message(digest)

    def prefixes(self, request: Asked) -> Conversation:
        """Return the digests of the conversation of *request* up to each message."""
        return self.index.conversations.of(request)

    def conversation(self, request: Asked) -> list[Json]:
        """Return the messages of *request*, without the system's."""
        messages = map(self.message, self.prefixes(request))
        return [one for one in messages if not (isinstance(one, dict) and one.get("role") == "system")]

    def bare(self, request: Asked) -> bytes:
        """Return a digest of `conversation`."""
        return self.index.conversations.bare(self.prefixes(request))

    def lacking_turns(self, reference: Record) -> set[int]:
        """Return the turns that *reference* got an answer in, and this run did not."""
        return self.index.lacking(Asked, "answered turn", answered_turn, reference.index)  # type: ignore[return-value]

    def asked_after(self, event: AnyEvent) -> tuple[Asked, ...]:
        """Return the answered requests that came after *event*."""
        return self.where(Asked, "answered", is_answered, after=event)

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
            if isinstance(event, Reached) and event.phase in ACTING_PHASES:
                steps[event.attempt] = event.step
            elif isinstance(event, Effected):
                found.append(steps.get(event.attempt))
        return tuple(found)

    @cached_property
    def _finished_points(self) -> tuple[Reached, ...]:
        return self.where(Reached, "finished", lambda point: point.phase == "finished")

    def _state(self, raw: msgspec.Raw) -> Json:
        return masked(_decode(raw), self.volatile)

    def _at_end(self, event: Observed | Reached) -> bool:
        return event.phase == "finished" and event.attempt == self.attempts


def _decode(raw: msgspec.Raw) -> Json:
    value: Json = msgspec.json.decode(raw)
    return value
