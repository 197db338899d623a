"""The strategy x fault matrix as frozen values, its headline and its key figures: from a Campaign alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chaos.reports.cells import BROKEN_STATES, SEVERITY, UNPROVED_STATES, VERDICT_SEVERITY, Cell, Column, State, cell_of
from chaos.reports.text import listing, middle, number, plural, seconds
from chaos.results import Campaign, CellResult, RunResult


@dataclass(frozen=True)
class Row:
    """One strategy; None where it was not crossed with the fault."""

    strategy: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Figure:
    """One key figure: a value and what it counts."""

    value: str
    label: str


@dataclass(frozen=True)
class Headline:
    """The verdict in a few words and one sentence generated from the cells; *rest* has what matters less."""

    word: str
    sentence: str
    rest: str
    state: State


@dataclass(frozen=True)
class Matrix:
    """Rows are strategies, columns faults, both in the order in which they first appear."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    headline: Headline
    skips: tuple[tuple[str, tuple[str, ...]], ...]  # reason, names of the cells

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells, row by row."""
        return tuple(cell for row in self.rows for cell in row.cells if cell)

    @property
    def judged(self) -> tuple[Cell, ...]:
        """The cells that were not skipped."""
        return tuple(cell for cell in self.cells if not cell.skipped)

    @property
    def bad(self) -> tuple[Cell, ...]:
        """The cells that are not as the scenario wants them, worst first."""
        return tuple(
            sorted(
                (cell for cell in self.judged if not cell.good),
                key=lambda cell: (-SEVERITY[cell.state], -VERDICT_SEVERITY[cell.verdict]),
            )
        )

    @property
    def landed(self) -> tuple[int, int]:
        """Faults that landed, and faults that were planned."""
        return sum(cell.landed for cell in self.judged), sum(cell.planned for cell in self.judged)

    @property
    def replay(self) -> str:
        """Command that replays the worst cell; without a bad one an expected loss, else any run."""
        lost = [cell for state in (State.KNOWN, State.EXPECTED) for cell in self.judged if cell.state is state]
        return next((cell.replay for cell in (*self.bad, *lost, *self.judged) if cell.replay), "")


def of(campaign: Campaign) -> Matrix:
    """Return the matrix of *campaign*, finished or not."""
    runs: dict[tuple[str, str, str], list[RunResult]] = {}
    results: dict[tuple[str, str, str], CellResult] = {}
    for run in campaign.runs:
        runs.setdefault((run.scenario, run.strategy, run.fault), []).append(run)
    for result in campaign.cells:
        results[result.scenario, result.strategy, result.fault] = result
    keys = list(dict.fromkeys([(c.scenario, c.strategy, c.fault) for c in campaign.cells] + list(runs)))
    columns = _columns(dict.fromkeys((scenario, fault) for scenario, _, fault in keys))
    rows: list[Row] = []
    taken: set[str] = set()
    for strategy in dict.fromkeys(strategy for _, strategy, _ in keys):
        cells: list[Cell | None] = []
        for column in columns:
            key = (column.scenario, strategy, column.fault)
            known = key in results or key in runs
            cells.append(cell_of(strategy, column, runs.get(key, []), results.get(key), taken) if known else None)
        rows.append(Row(strategy, tuple(cells)))
    return Matrix(columns, tuple(rows), _headline(rows), _skips(rows))


def figures(matrix: Matrix, campaign: Campaign, duplicates: int | None = None) -> tuple[Figure, ...]:
    """Return the key figures; *duplicates* are effects that happened more often than in the reference, if known."""
    judged = matrix.judged
    exercised = [run for run in campaign.runs if run.landed]
    landed, planned = matrix.landed
    broken = sum(cell.state in BROKEN_STATES and not cell.good for cell in judged)
    expected = sum(cell.state is State.EXPECTED for cell in judged)
    known = sum(cell.state is State.KNOWN for cell in judged)
    found = [
        Figure(f"{sum(cell.good for cell in judged)} / {len(judged)}", "cells as promised"),
        Figure(number(broken), "broken promise" if broken == 1 else "broken promises"),
        Figure(number(expected), "expected loss" if expected == 1 else "expected losses"),
        *([Figure(number(known), "known failure" if known == 1 else "known failures")] if known else []),
        Figure(f"{number(landed)} / {number(planned)}", "planned faults landed"),
        Figure(seconds(middle(run.rto_seconds.total for run in exercised if run.rto_seconds)), "median RTO"),
        Figure(number(middle(run.tokens.asked_again for run in exercised)), "tokens asked again"),
    ]
    if duplicates is not None:
        found.insert(5, Figure(number(duplicates), "duplicate effect" if duplicates == 1 else "duplicate effects"))
    return tuple(found)


def _columns(faults: Iterable[tuple[str, str]]) -> tuple[Column, ...]:
    known = list(faults)
    times = [fault for _, fault in known]
    return tuple(
        Column(scenario, fault, f"{scenario} {fault}" if times.count(fault) > 1 else fault) for scenario, fault in known
    )


def _skips(rows: Sequence[Row]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    reasons: dict[str, list[str]] = {}
    for cell in (cell for row in rows for cell in row.cells if cell and cell.skipped):
        reasons.setdefault(cell.skipped, []).append(cell.name)
    return tuple((reason, tuple(names)) for reason, names in reasons.items())


def _headline(rows: Sequence[Row]) -> Headline:
    judged = [cell for row in rows for cell in row.cells if cell and not cell.skipped]
    broken = [cell.name for cell in judged if cell.state in BROKEN_STATES and not cell.good]
    kept = [cell.name for cell in judged if cell.state is State.KEPT]
    errors = [cell.name for cell in judged if cell.state is State.ERROR]
    unproved = [cell.name for cell in judged if cell.state in UNPROVED_STATES]
    expected = sum(cell.state is State.EXPECTED for cell in judged)
    known = sum(cell.state is State.KNOWN for cell in judged)
    first = [
        _clean(rows) if judged else "no cell was run",
        f"{listing(broken)} broke {'its promise' if len(broken) == 1 else 'their promises'}" if broken else "",
    ]
    rest = [
        f"{listing(kept)} kept what the scenario expects to break" if kept else "",
        f"{listing(unproved)} {'proves' if len(unproved) == 1 else 'prove'} nothing" if unproved else "",
        f"the harness failed in {listing(errors)}" if errors else "",
        f"{plural(known, 'known failure')} {'was' if known == 1 else 'were'} accepted" if known else "",
        f"{plural(expected, 'loss', 'losses')} {'was' if expected == 1 else 'were'} expected" if expected else "",
    ]
    word, state = _verdict_word(len(broken), len(errors), len(kept), len(unproved), len(judged))
    if known and state is State.RECOVERED:
        word, state = "No new failure", State.KNOWN
    return Headline(word, _sentence(first), _sentence(rest), state)


def _sentence(parts: Sequence[str]) -> str:
    joined = "; ".join(part for part in parts if part)
    ours = joined.startswith(("all ", "no ", "the "))  # a strategy's name keeps its case
    return f"{joined[:1].upper() + joined[1:] if ours else joined}." if joined else ""


def _verdict_word(broken: int, errors: int, kept: int, unproved: int, judged: int) -> tuple[str, State]:
    if broken:
        return plural(broken, "broken promise"), State.BROKEN
    if errors:
        return plural(errors, "harness error"), State.ERROR
    if kept:
        return plural(kept, "unexpected recovery", "unexpected recoveries"), State.KEPT
    if unproved or not judged:
        return "Nothing proved" if unproved == judged else "Not all proved", State.NOT_EXERCISED
    return "As promised", State.RECOVERED


def _clean(rows: Sequence[Row]) -> str:
    """Return which strategies broke nothing, not even what is expected; else which one recovered most often."""
    tried = [(row.strategy, [cell for cell in row.cells if cell and not cell.skipped]) for row in rows]
    shares = {
        strategy: (sum(cell.state is State.RECOVERED for cell in cells), len(cells))
        for strategy, cells in tried
        if cells
    }
    clean = [strategy for strategy, (recovered, faults) in shares.items() if recovered == faults]
    if len(clean) == len(shares) > 2:
        return f"all {len(clean)} strategies recovered from every fault"
    if clean:
        return f"{listing(clean)} recovered from every fault"
    # The most faults, and among equals the fewest tried: a share alone would favour who was hardly tested.
    recovered, faults = max(shares.values(), key=lambda share: (share[0], -share[1]))
    if not recovered:
        return "no strategy recovered from any fault"
    best = listing([strategy for strategy, share in shares.items() if share == (recovered, faults)])
    return f"{best} recovered most often, from {recovered} of {plural(faults, 'fault')}; no strategy from every fault"
