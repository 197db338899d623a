"""Who ran which step, in lanes: the reference, before the crash, after each resume; and the faults that cross them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from chaos.events.done import Injecting
from chaos.events.seen import Asked, Effected, Reached, Started
from chaos.journal import AnyEvent
from chaos.plan import STEP_PHASES
from chaos.reports.story import story
from chaos.reports.text import proved
from chaos.results import Landed

REFERENCE = "reference"
"""The label of the lane that the others are compared with."""

HTTP_ERRORS = 400
"""The least HTTP status that is no answer."""

_ACTED = STEP_PHASES.index("after_act")
_COMMITTED = STEP_PHASES.index("after_commit")


@dataclass(frozen=True)
class Step:
    """One step in one incarnation. *redone*: an earlier one had acted already. *done*: the part of it that ran."""

    number: int
    done: float
    redone: bool


@dataclass(frozen=True)
class Hit:
    """A fault as a vertical line: in *lane*, *done* of the way through *step*. *label*: the fault and its proof."""

    lane: int
    step: int
    done: float
    label: str


@dataclass(frozen=True)
class Effect:
    """An effect on the world during a step. *times*: it happened that often, more than in the reference; else 0."""

    step: int
    times: int
    deduplicated: bool


@dataclass(frozen=True)
class Ask:
    """An answered request to the model during a step. *again*: the same prompt was answered before in this run."""

    step: int
    again: bool


@dataclass(frozen=True)
class Lane:
    """One line of the timeline: the reference, or one incarnation of the agent. *checkpoints*: steps it committed."""

    label: str
    steps: tuple[Step, ...]
    effects: tuple[Effect, ...]
    asks: tuple[Ask, ...] = ()
    checkpoints: tuple[int, ...] = ()


@dataclass(frozen=True)
class Timeline:
    """The lanes, and the faults that cross them."""

    lanes: tuple[Lane, ...]
    hits: tuple[Hit, ...]

    @property
    def steps(self) -> int:
        """Number of steps on the time axis."""
        return max((step.number + 1 for lane in self.lanes for step in lane.steps), default=0)

    @property
    def redone(self) -> tuple[int, ...]:
        """Steps whose action happened again."""
        return tuple(sorted({step.number for lane in self.lanes for step in lane.steps if step.redone}))


def timeline(events: Sequence[AnyEvent], reference: Sequence[AnyEvent], landed: Sequence[Landed]) -> Timeline | None:
    """Return who ran which step; None for an agent that neither announces steps nor asks a model.

    Args:
        landed: the proofs that faults hit; where there are none, the journal's own words are told.
    """
    wanted = counted(reference) if reference else None
    lanes = [_lane(REFERENCE, reference, {}, Counter(), None)] if reference else []
    attempts = sorted({event.attempt for event in events if event.attempt > 0})
    acted: dict[int, bool] = {}
    seen: Counter[str] = Counter()
    for attempt in attempts:
        own = [event for event in events if event.attempt == attempt]
        lanes.append(_lane(_lane_name(attempt, attempts), own, acted, seen, wanted))
        acted |= {step: True for step, phase in _phases(own).items() if phase >= _ACTED}
    first = len(lanes) - len(attempts)
    hits = tuple(_hits(events, landed, {attempt: first + i for i, attempt in enumerate(attempts)}))
    found = Timeline(tuple(lanes), hits)
    return found if found.steps else None


def counted(events: Iterable[AnyEvent]) -> Counter[str]:
    """Count the effects that really happened, by identity."""
    return Counter(event.identity for event in events if isinstance(event, Effected) and not event.deduplicated)


def _lane_name(attempt: int, attempts: Sequence[int]) -> str:
    if len(attempts) == 1:
        return "this run"
    if attempt == attempts[0]:
        return "before the crash"
    return "after resume" if len(attempts) == 2 else f"after resume {attempts.index(attempt)}"


def _lane(
    label: str,
    events: Sequence[AnyEvent],
    acted: dict[int, bool],
    seen: Counter[str],
    wanted: Counter[str] | None,
) -> Lane:
    """Return one lane; *seen* counts the effects of earlier lanes and is carried on."""
    reached = _phases(events)
    last = max(reached, default=-1)
    effects: list[Effect] = []
    asks: list[Ask] = []
    for step, event in _by_step(events):
        if isinstance(event, Asked):
            asks.append(Ask(step, event.again))
            continue
        if not event.deduplicated:
            seen[event.identity] += 1
        extra = wanted is not None and not event.deduplicated and seen[event.identity] > wanted[event.identity]
        effects.append(Effect(step, seen[event.identity] if extra else 0, event.deduplicated))
    return Lane(
        label,
        tuple(
            Step(step, 1.0 if step != last else (phase + 1) / (_COMMITTED + 1), acted.get(step, False))
            for step, phase in sorted(reached.items())
        ),
        tuple(effects),
        tuple(dict.fromkeys(asks)),
        tuple(sorted({e.step for e in events if isinstance(e, Reached) and e.phase == STEP_PHASES[_COMMITTED]})),
    )


def _phases(events: Iterable[AnyEvent]) -> dict[int, int]:
    """Return the last phase reached in each step; turns answered by the model where no step was announced."""
    reached: dict[int, int] = defaultdict(lambda: -1)
    turns: dict[int, int] = {}
    for event in events:
        if isinstance(event, Reached) and event.phase in STEP_PHASES:
            reached[event.step] = max(reached[event.step], STEP_PHASES.index(event.phase))
        elif isinstance(event, Asked) and event.status < HTTP_ERRORS:
            turns[event.turn] = _COMMITTED
    return dict(reached) or turns


def _by_step(events: Iterable[AnyEvent]) -> Iterator[tuple[int, Asked | Effected]]:
    """Yield the answered requests and the effects, each with the step that it belongs to."""
    step = 0
    for event in events:
        if isinstance(event, Reached) and event.phase in STEP_PHASES:
            step = event.step
        elif isinstance(event, Asked):
            step = max(step, event.turn)
            if event.status < HTTP_ERRORS:
                yield step, event
        elif isinstance(event, Effected):
            yield step, event


def _hits(events: Sequence[AnyEvent], landed: Sequence[Landed], lanes: dict[int, int]) -> Iterator[Hit]:
    """Yield where each fault was injected, with the proof that it landed."""
    proofs = list(landed)
    step, done, attempt = 0, 0.0, 0
    announced = any(isinstance(event, Reached) and event.phase in STEP_PHASES for event in events)
    for place, event in enumerate(events):
        if event.attempt != attempt:  # an incarnation begins: no step of its own was reached yet
            attempt, done = event.attempt, 0.0
            step = min(_phases(e for e in events if e.attempt == attempt), default=step)
        if isinstance(event, Reached) and event.phase in STEP_PHASES:
            step, done = event.step, (STEP_PHASES.index(event.phase) + 1) / (_COMMITTED + 1)
        elif isinstance(event, Asked) and event.status < HTTP_ERRORS and not announced:
            step, done = event.turn, 1.0
        elif isinstance(event, Injecting) and event.attempt in lanes:
            proof = next((proof for proof in proofs if proof.at == event.point), None)
            if proof:
                proofs.remove(proof)
            shown = proved(proof) if proof else "did not land" if landed else _seen_after(events[place + 1 :])
            yield Hit(lanes[event.attempt], step, done, f"{event.fault} at {event.point}: {shown}")


def _seen_after(events: Sequence[AnyEvent]) -> str:
    """Return what was done and seen from an injection until the agent's next start."""
    until = (place for place, event in enumerate(events) if isinstance(event, Injecting | Started))
    return "; ".join(moment.words for moment in story(events[: next(until, len(events))])) or "nothing was seen of it"
