"""What one run's journal proves, beside its reference: who ran which step, what broke, what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import msgspec

from chaos import journal
from chaos.events.seen import Effected, Exited, Reached
from chaos.journal import AnyEvent
from chaos.plan import STEP_PHASES
from chaos.record import Record
from chaos.reports import differences
from chaos.reports.differences import Table, TextDiff
from chaos.reports.lanes import Timeline, counted, timeline
from chaos.reports.story import Moment, story
from chaos.reports.text import clip
from chaos.results import Landed, Minimal, RunResult
from chaos.shrink.bundle import JOURNAL, REFERENCE

READ_BYTES = 32_000_000  # of one journal: a run that floods it must not take the report down
EXITS = 6  # incarnations whose logs are shown
PAYLOAD = 160  # characters of one effect
KEPT_JOURNALS = 4  # read ones in memory: the runs of a strategy share their reference


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
        if not self.run:
            return "missing"
        return "duplicate" if self.run > self.reference > 0 else "too few" if self.reference else "not in the reference"

    @property
    def line(self) -> str:
        """The row as plain text."""
        return f"{self.effect} {self.payload}: {self.run} instead of {self.reference} ({self.note})"


@dataclass(frozen=True)
class Exit:
    """How an incarnation ended, and what is kept of what it wrote."""

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
    tables: tuple[Table, ...] = ()
    texts: tuple[TextDiff, ...] = ()
    ledger: tuple[LedgerRow, ...] = ()  # the effects that differ from the reference
    equal: int = 0  # effects that agree with it
    exits: tuple[Exit, ...] = ()


class Journals:
    """Reads the journals of one results folder, each at most once for counting."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counts: dict[str, Counter[str] | None] = {}
        self.events = lru_cache(maxsize=KEPT_JOURNALS)(self._events)
        """Returns the events of the journal at a path in the folder, and why there are none."""

    def _events(self, path: str) -> tuple[tuple[AnyEvent, ...], str]:
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
        return self._evidence(run.journal, run.reference, run.landed, run.volatile)

    def of_bundle(self, minimal: Minimal, run: RunResult) -> Evidence:
        """Return the evidence of *minimal*, by the journals in its bundle; *run* is the one that it was shrunk from."""
        return self._evidence(f"{minimal.bundle}/{JOURNAL}", f"{minimal.bundle}/{REFERENCE}", (), run.volatile)

    def test_of(self, minimal: Minimal) -> tuple[str, str]:
        """Return the name and the text of the test in the bundle of *minimal*; "" twice if there is none."""
        try:
            path = next((self._folder / minimal.bundle).glob("test_*.py"), None) if minimal.bundle else None
            return (path.name, path.read_text(encoding="utf-8")) if path else ("", "")
        except (OSError, UnicodeDecodeError):
            return "", ""

    def _evidence(self, path: str, beside: str, landed: Sequence[Landed], volatile: tuple[str, ...]) -> Evidence:
        """Return what the journal at *path* proves, compared with the one *beside* it."""
        events, missing = self.events(path)
        if not events:
            return Evidence(missing=(missing or f"{path}: it is empty",))
        reference, no_reference = self.events(beside)
        found = Evidence(
            missing=(f"no reference: {no_reference}",) if no_reference else (),
            timeline=timeline(events, reference, landed),
            story=story(events),
            exits=tuple(_exit(event) for event in events if isinstance(event, Exited) and event.log)[-EXITS:],
        )
        if not reference:
            return found
        rows, equal = _ledger(events, reference)
        record, right = Record(events, volatile), Record(reference, volatile)
        compared = differences.tables(record, right), differences.texts(record, right)
        return replace(found, ledger=tuple(rows), equal=equal, tables=compared[0], texts=compared[1])

    def _counted(self, path: str) -> Counter[str] | None:
        if path not in self._counts:
            events, missing = self.events(path)
            self._counts[path] = None if missing else counted(events)
        return self._counts[path]


def _ledger(events: Sequence[AnyEvent], reference: Sequence[AnyEvent]) -> tuple[list[LedgerRow], int]:
    """Return the effects that happened more or less often than in *reference*, and how many agree."""
    done, wanted = counted(events), counted(reference)
    known = {event.identity: event for event in (*reference, *events) if isinstance(event, Effected)}
    differing = [identity for identity in known if done[identity] != wanted[identity]]
    rows = [
        LedgerRow(
            f"{known[identity].service} {known[identity].operation}",
            clip(known[identity].payload, PAYLOAD),
            wanted[identity],
            done[identity],
        )
        for identity in differing
    ]
    return rows, sum(done[identity] == wanted[identity] > 0 for identity in known)


def _exit(event: Exited) -> Exit:
    return Exit(event.attempt, event.at, event.status, tuple(event.log.rstrip("\n").split("\n")))
