"""What tests in Python get of a cell that was run: frozen values, without pytest in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from chaos import journal
from chaos.errors import HarnessError
from chaos.events.seen import Effected, FileEntry
from chaos.record import Record
from chaos.reports.failure_text import failure
from chaos.results import CellResult, Landed, RunResult
from chaos.verdict import CellVerdict, Verdict


@dataclass(frozen=True)
class Ledger:
    """The effects of one run on the outside world, in order.

    *ignored* are the calls that a service recognised by their idempotency keys, and answered without doing anything.
    """

    effects: tuple[Effected, ...] = ()
    ignored: tuple[Effected, ...] = ()

    @classmethod
    def of(cls, events: Sequence[Effected]) -> Self:
        """Return the ledger of *events*."""
        return cls(
            tuple(each for each in events if not each.deduplicated), tuple(each for each in events if each.deduplicated)
        )

    def count(self, name: str) -> int:
        """Return how many effects the operation *name* had ("travel.pay")."""
        return sum(f"{each.service}.{each.operation}" == name for each in self.effects)

    def __len__(self) -> int:
        return len(self.effects)

    def __iter__(self) -> Iterator[Effected]:
        return iter(self.effects)


@dataclass(frozen=True)
class OneRun:
    """One run of a cell: its *result*, as it stands in the results, and what its journal in *folder* holds."""

    result: RunResult
    folder: Path

    @property
    def plan(self) -> str:
        """Where it was broken, as `--chaos-case` takes it."""
        return self.result.plan

    @property
    def verdict(self) -> CellVerdict:
        return self.result.verdict

    @property
    def landed(self) -> tuple[Landed, ...]:
        """The faults that hit, each with the evidence."""
        return self.result.landed

    @property
    def checks(self) -> Mapping[str, Verdict]:
        """What each check says."""
        return self.result.checks

    @property
    def journal(self) -> Path:
        """The file with all that was seen."""
        return self.folder / self.result.journal

    @cached_property
    def record(self) -> Record:
        """All that was seen."""
        if not self.result.journal:
            raise HarnessError(f"the run {self.plan} has no journal: {self.result.error}")
        return Record(journal.read(self.journal), self.result.volatile)

    @cached_property
    def reference(self) -> Record:
        """All that was seen in the run without a crash."""
        return Record(journal.read(self.folder / self.result.reference), self.result.volatile)

    @cached_property
    def ledger(self) -> Ledger:
        """Its effects on the outside world."""
        return Ledger.of(self.record.effects)

    @cached_property
    def files(self) -> Mapping[str, FileEntry]:
        """The files at the end, by path ("workspace/trip.md"); none of a run that did not come to its end."""
        seen = self.record.final_observation
        return {entry.path: entry for entry in seen.files} if seen else {}


@dataclass(frozen=True)
class ChaosRun:
    """A cell that was run: its *result*, as it stands in the results, and its *runs*; *report* is where the page is."""

    result: CellResult
    runs: tuple[OneRun, ...]
    report: str = ""

    @property
    def verdict(self) -> CellVerdict:
        """That of the worst run."""
        return self.result.verdict

    @property
    def ledgers(self) -> tuple[Ledger, ...]:
        """The effects of each run."""
        return tuple(run.ledger for run in self.runs)

    def assert_recovered(self) -> None:
        """Raise AssertionError, with the text of a failed cell, if the cell is not as the scenario wants it."""
        __tracebackhide__ = True
        if not self.result.passed:
            raise AssertionError(self.failure)

    @property
    def failure(self) -> str:
        """What broke, the promises, what differs, and the command that replays it."""
        return "\n".join(failure(self.result, [run.result for run in self.runs], self.report))
