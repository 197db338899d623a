"""What the template lays out of failures and cells: values with everything decided, cut and worded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from chaos import codes, registry
from chaos.errors import ChaosError
from chaos.reports import drawing, text
from chaos.reports.beside import Beside, Piece
from chaos.reports.cells import Cell
from chaos.reports.differences import Row, Table
from chaos.reports.evidence import Evidence, Exit, Journals, LedgerRow
from chaos.reports.failures import Failure
from chaos.results import Minimal, RunResult
from chaos.verdict import CellVerdict, Outcome

SHOWN_RUNS = 25  # of one cell: what broke comes first, the rest is the same again
DETAIL_LINES = 10  # of one check, or of one diff: its head shows what differs
OTHER_LINES = 3  # of a check that is not what the failure is named after
ROWS = 12  # of one table of differences; the others follow on selection, or beside the page
TEXTS = 6  # files whose text is compared on the page: the table names all that differ
LOG_LINES = 12  # last lines at each exit: enough for the end of a traceback
OPEN_FAILURES = 5  # the worst ones: more at once is a wall of text

COMPARED = {"files": "files", "processes": "processes", "environment": "environment", "effects": ""}
"""Checks whose details are the rows of a table that is shown anyway, with the kind of that table; "": the ledger."""


@dataclass(frozen=True)
class RunView:
    """One row of a cell's runs table."""

    run: RunResult
    landed: tuple[tuple[str, str, str], ...]  # fault, point, proof


@dataclass(frozen=True)
class Promise:
    """What one check *wanted* and what it *got* in the run that is shown; *outcomes* are those of all runs."""

    name: str
    code: str
    wanted: str
    outcomes: tuple[tuple[str, int], ...]
    worst: str
    expected: bool
    got: str
    details: Piece

    @property
    def quiet(self) -> bool:
        """Tell whether it held everywhere and has nothing to say."""
        return self.worst == "pass" and not self.got and not self.details.first and not self.expected


@dataclass(frozen=True)
class TableView:
    """A table of differences: its first rows, and the others as lines."""

    title: str
    rows: tuple[Row, ...]
    rest: Piece


@dataclass(frozen=True)
class LedgerView:
    """The effects that differ from the reference, the first of them as rows; *equal* of them do not."""

    rows: tuple[LedgerRow, ...]
    rest: Piece
    equal: int


@dataclass(frozen=True)
class EvidenceView:
    """Everything seen of one run. *of* says which run it is."""

    of: str
    anchor: str
    found: Evidence
    timeline: drawing.TimelineDrawing | None
    tables: tuple[TableView, ...]
    texts: tuple[tuple[str, Piece], ...]
    more_texts: Piece
    ledger: LedgerView
    logs: tuple[tuple[Exit, Piece], ...]


@dataclass(frozen=True)
class FailureView:
    """The section of one cause."""

    failure: Failure
    open: bool
    promises: tuple[Promise, ...]
    evidence: EvidenceView | None
    test: tuple[str, str]  # the name and the text of the reproduction


@dataclass(frozen=True)
class CellView:
    """The section of one cell. What it broke is told with its *failures*; of what broke nothing there is evidence."""

    cell: Cell
    open: bool
    failures: tuple[Failure, ...]
    smaller: tuple[Minimal, ...]  # smallest cases that no failure tells of
    runs: tuple[RunView, ...]
    cut_runs: int
    promises: tuple[Promise, ...]
    evidence: EvidenceView | None


@dataclass(frozen=True)
class Sections:
    """Makes the sections of one page."""

    journals: Journals
    beside: Beside

    def failure(self, failure: Failure, place: int, detailed: bool) -> FailureView:
        """Return the section of *failure*, the *place*-th on the page; not *detailed* without evidence."""
        minimal, run = failure.minimal, failure.shown
        evidence = None
        if detailed and minimal and minimal.bundle and failure.exact:
            found = self.journals.of_bundle(minimal, run)
            evidence = self._evidence(found, f"the smallest case, {minimal.case}", failure.anchor)
        elif detailed:
            evidence = self._evidence(self.journals.of(run), _named(run), failure.anchor)
        return FailureView(
            failure=failure,
            open=not failure.expected and not failure.known and place < OPEN_FAILURES,
            promises=self._promises(
                run, [one for at in failure.where for one in at.runs], failure.anchor, evidence, failure.cause.check
            ),
            evidence=evidence,
            test=self.journals.test_of(minimal) if minimal else ("", ""),
        )

    def cell(self, cell: Cell, told: Sequence[Failure], detailed: bool) -> CellView:
        """Return the section of *cell*, whose failures are *told* elsewhere; not *detailed* without evidence."""
        shown = cell.first_interesting
        own = shown if shown and detailed and not told else None
        evidence = self._evidence(self.journals.of(own), _named(own), cell.anchor) if own else None
        ordered = sorted(cell.runs, key=lambda run: run.verdict is CellVerdict.RECOVERED)
        mentioned = [failure.minimal for failure in told]
        return CellView(
            cell=cell,
            open=not cell.good and not told,
            failures=tuple(told),
            smaller=tuple(minimal for minimal in cell.minimal if minimal not in mentioned),
            runs=tuple(map(_run, ordered[:SHOWN_RUNS])),
            cut_runs=max(len(ordered) - SHOWN_RUNS, 0),
            promises=self._promises(shown, cell.runs, cell.anchor, evidence) if shown and not told else (),
            evidence=evidence,
        )

    def _promises(
        self,
        shown: RunResult,
        runs: Sequence[RunResult],
        anchor: str,
        evidence: EvidenceView | None,
        named: str = "",
    ) -> tuple[Promise, ...]:
        """Return what each check said of *runs*: the one *named* first, the worst, then in the scenario's order."""
        tabled = _tabled(evidence)
        views = []
        for name in dict.fromkeys(name for run in runs for name in run.checks):
            outcomes = Counter(run.checks[name].outcome for run in runs if name in run.checks)
            # The run that is shown may have passed what another one broke.
            of = max((shown, *runs), key=lambda run: run.checks[name].outcome if name in run.checks else -1)
            details = () if name in tabled and of is shown else of.checks[name].details
            most = DETAIL_LINES if name == (named or name) else OTHER_LINES
            views.append(
                Promise(
                    name=name,
                    code=codes.of_check(name),
                    wanted=wanted(name),
                    outcomes=tuple((outcome.name.lower(), outcomes[outcome]) for outcome in sorted(outcomes)[::-1]),
                    worst=max(outcomes).name.lower(),
                    expected=name in shown.expected,
                    got="" if name == named and of is shown and details else text.clip(of.checks[name].finding),
                    details=self.beside.piece(f"{anchor}-{name}", tuple(map(text.clip, details)), most),
                )
            )
        return tuple(sorted(views, key=lambda view: (view.name != named, -Outcome[view.worst.upper()])))

    def _evidence(self, found: Evidence, of: str, anchor: str) -> EvidenceView:
        return EvidenceView(
            of=of,
            anchor=anchor,
            found=found,
            timeline=drawing.timeline(found.timeline) if found.timeline else None,
            tables=tuple(self._table(table, anchor) for table in found.tables),
            texts=tuple(
                (diff.path, self.beside.piece(f"{anchor}-{diff.path}", diff.lines, DETAIL_LINES))
                for diff in found.texts[:TEXTS]
            ),
            more_texts=self.beside.piece(
                f"{anchor}-texts", [line for diff in found.texts[TEXTS:] for line in (diff.path, *diff.lines)], 0
            ),
            ledger=self._ledger(found, anchor),
            logs=tuple(
                (exit, self.beside.piece(f"{anchor}-log-{exit.attempt}", _lines(exit.log), LOG_LINES, tail=True))
                for exit in found.exits
            ),
        )

    def _table(self, table: Table, anchor: str) -> TableView:
        lines = tuple(row.line for row in table.rows[ROWS:])
        return TableView(table.title, table.rows[:ROWS], self.beside.piece(f"{anchor}-{table.kind}", lines, 0))

    def _ledger(self, found: Evidence, anchor: str) -> LedgerView:
        lines = tuple(row.line for row in found.ledger[ROWS:])
        return LedgerView(found.ledger[:ROWS], self.beside.piece(f"{anchor}-effects", lines, 0), found.equal)


@cache
def wanted(check: str) -> str:
    """Return what *check* promises: the first sentence of its docstring; "" if it is not installed here."""
    try:
        doc: str = registry.load("checks", check).__doc__ or ""
    except (ChaosError, ImportError):
        return ""
    first = " ".join(doc.split("\n\n")[0].split())
    return first.split(". ")[0].rstrip(".")


def _tabled(evidence: EvidenceView | None) -> frozenset[str]:
    """Return the checks whose details are in the tables of *evidence*."""
    if evidence is None:
        return frozenset()
    kinds = {table.kind for table in evidence.found.tables} | ({""} if evidence.found.ledger else set())
    return frozenset(name for name, kind in COMPARED.items() if kind in kinds)


def _named(run: RunResult) -> str:
    return f"run {run.run}, {text.clip(run.plan, 120)}"


def _lines(log: Sequence[str]) -> tuple[str, ...]:
    return tuple(text.clip(line, 4 * text.SHOWN_CHARACTERS) for line in log)


def _run(run: RunResult) -> RunView:
    return RunView(run, tuple((landed.fault, landed.at, text.proved(landed)) for landed in run.landed))


def by_cell(failures: Sequence[Failure]) -> Mapping[str, list[Failure]]:
    """Return the failures of each cell, by its anchor, in the order of the page."""
    found: dict[str, list[Failure]] = {}
    for failure in failures:
        for at in failure.where:
            found.setdefault(at.cell.anchor, []).append(failure)
    return found
