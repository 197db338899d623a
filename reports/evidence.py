"""What one run's journal proves, beside its reference: who ran which step, what broke, which effects differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from chaos import journal
from chaos.events.done import Injecting
from chaos.events.seen import Asked, Effected, Exited, Reached
from chaos.journal import AnyEvent
from chaos.plan import STEP_PHASES
from chaos.reports.story import Moment, story
from chaos.reports.text import clip, proved
from chaos.results import Landed, RunResult

READ_BYTES = 32_000_000  # of one journal: a run that floods it must not take the report down
LEDGER_ROWS = 30  # differing effects shown; hundreds say no more
LOG_LINES = 12  # last lines at each exit: enough for the end of a traceback
EXITS = 6  # incarnations whose logs are shown

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
class Lane:
    """One line of the timeline: the reference, or one incarnation of the agent."""

    label: str
    steps: tuple[Step, ...]
    effects: tuple[Effect, ...]


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


@dataclass(frozen=True)
class LedgerRow:
    """One effect whose count differs from the reference."""

    effect: str
    payload: str
    reference: int
    run: int

    @property
    def note(self) -> str:
        """What the difference is called."""
        return "duplicate" if self.run > self.reference > 0 else "not in the reference" if self.run else "lost"


@dataclass(frozen=True)
class Exit:
    """How an incarnation ended, and the last lines that it wrote."""

    attempt: int
    at: float
    status: int
    log: tuple[str, ...]


@dataclass(frozen=True)
class Evidence:
    """All that the report shows of one run. *missing* says why there is less than that."""

    missing: tuple[str, ...] = ()
    timeline: Timeline | None = None
    story: tuple[Moment, ...] = ()
    ledger: tuple[LedgerRow, ...] = ()
    differing: int = 0  # effects, of which *ledger* has the first LEDGER_ROWS
    equal: int = 0  # effects that agree with the reference
    exits: tuple[Exit, ...] = ()


class Journals:
    """Reads the journals of one results folder, each at most once for counting."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counts: dict[str, Counter[str] | None] = {}

    def events(self, path: str) -> tuple[tuple[AnyEvent, ...], str]:
        """Return the events of the journal at *path* in the folder, and why there are none."""
        if not path:
            return (), "the results name no journal"
        file = self._folder / path
        try:
            if journal.size(file) > READ_BYTES:
                return (), f"{path}: larger than {READ_BYTES // 1_000_000} MB, not read"
            return journal.read(file), ""
        except OSError as error:
            return (), f"{path}: not readable ({error.strerror})"
        except msgspec.MsgspecError as error:
            return (), f"{path}: not a journal that this version can read ({error})"

    def duplicates(self, run: RunResult) -> int | None:
        """Return how many effects of *run* happened more often than in its reference; None if unknown."""
        done, wanted = self._counted(run.journal), self._counted(run.reference)
        return None if done is None or wanted is None else (done - wanted).total()

    def points(self, path: str) -> frozenset[tuple[int, str]]:
        """Return the steps and phases that the run of the journal at *path* reached."""
        events, _ = self.events(path)
        return frozenset((e.step, e.phase) for e in events if isinstance(e, Reached) and e.phase in STEP_PHASES)

    def of(self, run: RunResult) -> Evidence:
        """Return the evidence of *run*."""
        events, missing = self.events(run.journal)
        reference, no_reference = self.events(run.reference)
        if not events:
            return Evidence(missing=(missing,))
        rows, equal = _ledger(events, reference) if reference else ([], 0)
        return Evidence(
            missing=tuple(reason for reason in (f"no reference: {no_reference}" if no_reference else "",) if reason),
            timeline=_timeline(events, reference, run.landed),
            story=story(events),
            ledger=tuple(rows[:LEDGER_ROWS]),
            differing=len(rows),
            equal=equal,
            exits=tuple(_exit(event) for event in events if isinstance(event, Exited) and event.log)[-EXITS:],
        )

    def _counted(self, path: str) -> Counter[str] | None:
        if path not in self._counts:
            events, missing = self.events(path)
            self._counts[path] = None if missing else _effects(events)
        return self._counts[path]


def _effects(events: Iterable[AnyEvent]) -> Counter[str]:
    """Count the effects that really happened, by identity."""
    return Counter(event.identity for event in events if isinstance(event, Effected) and not event.deduplicated)


def _ledger(events: Sequence[AnyEvent], reference: Sequence[AnyEvent]) -> tuple[list[LedgerRow], int]:
    """Return the effects that happened more or less often than in *reference*, and how many agree."""
    done, wanted = _effects(events), _effects(reference)
    known = {event.identity: event for event in (*reference, *events) if isinstance(event, Effected)}
    differing = [identity for identity in known if done[identity] != wanted[identity]]
    rows = [
        LedgerRow(
            f"{known[identity].service} {known[identity].operation}",
            clip(known[identity].payload, 160),
            wanted[identity],
            done[identity],
        )
        for identity in differing
    ]
    return rows, sum(done[identity] == wanted[identity] > 0 for identity in known)


def _exit(event: Exited) -> Exit:
    lines = event.log.rstrip("\n").split("\n")[-LOG_LINES:]
    return Exit(event.attempt, event.at, event.status, tuple(clip(line) for line in lines))


def _timeline(events: Sequence[AnyEvent], reference: Sequence[AnyEvent], landed: Sequence[Landed]) -> Timeline | None:
    """Return who ran which step; None for an agent that neither announces steps nor asks a model."""
    wanted = _effects(reference)
    lanes = [_lane("reference", reference, {}, Counter())] if reference else []
    attempts = sorted({event.attempt for event in events if event.attempt > 0})
    acted: dict[int, bool] = {}
    seen: Counter[str] = Counter()
    for attempt in attempts:
        own = [event for event in events if event.attempt == attempt]
        lanes.append(_lane(_lane_name(attempt, attempts), own, acted, seen, wanted if reference else None))
        acted |= {step: True for step, phase in _phases(own).items() if phase >= _ACTED}
    first = len(lanes) - len(attempts)
    hits = tuple(_hits(events, landed, {attempt: first + i for i, attempt in enumerate(attempts)}))
    timeline = Timeline(tuple(lanes), hits)
    return timeline if timeline.steps else None


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
    wanted: Counter[str] | None = None,
) -> Lane:
    """Return one lane; *seen* counts the effects of earlier lanes and is carried on."""
    reached = _phases(events)
    effects: list[Effect] = []
    for step, event in _effects_by_step(events):
        if not event.deduplicated:
            seen[event.identity] += 1
        extra = wanted is not None and not event.deduplicated and seen[event.identity] > wanted[event.identity]
        effects.append(Effect(step, seen[event.identity] if extra else 0, event.deduplicated))
    last = max(reached, default=-1)
    steps = tuple(
        Step(step, 1.0 if step != last else (phase + 1) / (_COMMITTED + 1), acted.get(step, False))
        for step, phase in sorted(reached.items())
    )
    return Lane(label, steps, tuple(effects))


def _phases(events: Iterable[AnyEvent]) -> dict[int, int]:
    """Return the last phase reached in each step; turns answered by the model where no step was announced."""
    reached: dict[int, int] = defaultdict(lambda: -1)
    turns: dict[int, int] = {}
    for event in events:
        if isinstance(event, Reached) and event.phase in STEP_PHASES:
            reached[event.step] = max(reached[event.step], STEP_PHASES.index(event.phase))
        elif isinstance(event, Asked) and event.status < 400:
            turns[event.turn] = _COMMITTED
    return dict(reached) or turns


def _effects_by_step(events: Iterable[AnyEvent]) -> Iterator[tuple[int, Effected]]:
    step = 0
    for event in events:
        if isinstance(event, Reached) and event.phase in STEP_PHASES:
            step = event.step
        elif isinstance(event, Asked):
            step = max(step, event.turn)
        elif isinstance(event, Effected):
            yield step, event


def _hits(events: Sequence[AnyEvent], landed: Sequence[Landed], lanes: dict[int, int]) -> Iterator[Hit]:
    """Yield where each fault was injected, with the proof that it landed."""
    proofs = list(landed)
    step, done, attempt = 0, 0.0, 0
    for event in events:
        if event.attempt != attempt:  # an incarnation begins: no step of its own was reached yet
            attempt, done = event.attempt, 0.0
            step = min(_phases(e for e in events if e.attempt == attempt), default=step)
        if isinstance(event, Reached) and event.phase in STEP_PHASES:
            step, done = event.step, (STEP_PHASES.index(event.phase) + 1) / (_COMMITTED + 1)
        elif isinstance(event, Injecting) and event.attempt in lanes:
            proof = next((proof for proof in proofs if proof.at == event.point), None)
            if proof:
                proofs.remove(proof)
            shown = proved(proof) if proof else "did not land"
            yield Hit(lanes[event.attempt], step, done, f"{event.fault} at {event.point}: {shown}")
