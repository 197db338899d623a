"""One cell of the matrix as it is shown: from its runs and its result to a state, a word and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from chaos.reports.text import anchor, middle, plural, slug
from chaos.results import CellResult, Minimal, RunResult
from chaos.verdict import CellVerdict, worst


class State(Enum):
    """What a cell looks like, from best to worst: an icon and a word, never a colour alone."""

    RECOVERED = ("✓", "recovered")
    EXPECTED = ("≈", "expected loss")
    KNOWN = ("≡", "known failure")  # accepted by the baseline
    SKIPPED = ("–", "skipped")
    UNKNOWN = ("?", "unknown")
    NOT_EXERCISED = ("○", "not exercised")
    KEPT = ("!", "unexpectedly kept")
    ERROR = ("⚠\ufe0e", "harness error")  # U+FE0E: as text, not as a coloured emoji
    SOMETIMES = ("~", "sometimes")
    REFUSED = ("⊘", "refused")
    BROKEN = ("✗", "broken")

    def __init__(self, icon: str, word: str) -> None:
        self.icon = icon
        self.word = word

    @property
    def css(self) -> str:
        """Name of the state in style sheets."""
        return self.name.lower().replace("_", "-")


SEVERITY = {state: rank for rank, state in enumerate(State)}
VERDICT_SEVERITY = {verdict: rank for rank, verdict in enumerate(CellVerdict)}
BROKEN_STATES = frozenset({State.BROKEN, State.REFUSED, State.SOMETIMES})
UNPROVED_STATES = frozenset({State.NOT_EXERCISED, State.UNKNOWN})

LOSSES = (
    ("corruption", "silently wrong", "SILENT"),  # the worst answer: nobody noticed
    ("streams", "half a reply believed", "HALF"),
    ("fencing", "two workers at once", "TWO"),
    ("files", "lost files", "FILES"),
    ("processes", "lost processes", "PROCESSES"),
    ("environment", "lost environment", "ENVIRONMENT"),
    ("goal", "lost its goal", "GOAL"),
    ("recovery", "work redone", "REDONE"),
    ("effects", "effects not once", "EFFECTS"),
    ("budget", "lost its budget", "BUDGET"),
    ("state", "lost state", "STATE"),
    ("retries", "pesters the model", "PESTERS"),
)
"""What a cell says of its broken checks: the first of these, for it is the cause or the worst of the others."""
_TERMINAL = {
    State.RECOVERED: "ok",
    State.SKIPPED: "skip",
    State.UNKNOWN: "unknown",
    State.NOT_EXERCISED: "NOT EXERCISED",
    State.KEPT: "XPASS",
    State.ERROR: "ERROR",
    State.KNOWN: "known",
}


@dataclass(frozen=True)
class Column:
    """A fault of a scenario; *label* names the scenario only where several have a fault of that name."""

    scenario: str
    fault: str
    label: str


@dataclass(frozen=True)
class Cell:
    """One cell as it is shown. *terminal* is its word in plain text; *recovered* counts runs, out of *runs*."""

    anchor: str
    strategy: str
    column: Column
    state: State
    word: str
    terminal: str
    good: bool  # as the scenario wants it
    finished: bool  # False: the campaign ended before the cell was judged
    verdict: CellVerdict
    runs: tuple[RunResult, ...]
    recovered: int
    planned: int
    landed: int
    rpo: float | None
    rto: float | None
    why: str
    because: str
    skipped: str
    replay: str
    minimal: tuple[Minimal, ...] = ()

    @property
    def name(self) -> str:
        """ "strategy × fault"."""
        return f"{self.strategy} × {self.column.label}"

    @property
    def first_interesting(self) -> RunResult | None:
        """The first run with the cell's worst verdict, or the first that broke something, or the first."""
        broken = [run for run in self.runs if run.verdict is not CellVerdict.RECOVERED]
        at_worst = [run for run in broken if run.verdict is self.verdict]
        return next(iter(at_worst or broken or self.runs), None)


def cell_of(
    strategy: str, column: Column, runs: Sequence[RunResult], result: CellResult | None, taken: set[str]
) -> Cell:
    """Return one cell; without a *result* of all of it (it was interrupted, say) what its runs amount to so far."""
    absent, result = (result.why, None) if result and result.missing else ("", result)
    verdict = result.verdict if result else worst(run.verdict for run in runs)
    recovered = sum(map(_recovered, runs))
    state, word, terminal, good = _state(result, verdict, runs, recovered)
    landed_runs = [run for run in runs if run.landed]
    worst_run = next((run for run in runs if run.verdict is verdict), None)
    return Cell(
        anchor=anchor(f"cell-{slug(strategy)}--{slug(column.label)}", taken),
        strategy=strategy,
        column=column,
        state=state,
        word=word,
        terminal=terminal,
        good=good,
        finished=result is not None,
        verdict=verdict,
        runs=tuple(runs),
        recovered=recovered,
        planned=result.planned if result else sum(run.planned for run in runs),
        landed=result.landed if result else sum(len(run.landed) for run in runs),
        rpo=middle(run.rpo_steps for run in landed_runs),
        rto=middle(run.rto_seconds.total for run in landed_runs if run.rto_seconds),
        why=result.why
        if result
        else absent or f"the campaign ended before this cell was judged, after {plural(len(runs), 'run')}",
        because=next((run.because for run in runs if run.because), ""),
        skipped=result.skipped if result else "",
        replay=(result.replay if result else "") or (worst_run.replay if worst_run else ""),
        minimal=result.minimal if result else (),
    )


def _state(
    result: CellResult | None, verdict: CellVerdict, runs: Sequence[RunResult], recovered: int
) -> tuple[State, str, str, bool]:
    """Return the state, its word, its word in plain text, and whether the scenario wants it so."""
    if result and result.skipped:
        return State.SKIPPED, "skipped", _TERMINAL[State.SKIPPED], True
    passed = bool(result and result.passed)
    plain = {
        CellVerdict.HARNESS_ERROR: State.ERROR,
        CellVerdict.UNKNOWN: State.UNKNOWN,
        CellVerdict.NOT_EXERCISED: State.NOT_EXERCISED,
    }.get(verdict)
    if plain is None and passed:
        if result and result.expected:
            word, terminal = _loss(verdict, runs)
            return State.EXPECTED, word, terminal.lower(), True
        plain = State.RECOVERED
    elif plain is None and result and result.known:
        return State.KNOWN, f"known: {_loss(verdict, runs)[0]}", _TERMINAL[State.KNOWN], True
    elif plain is None and result and _kept(verdict, runs):
        plain = State.KEPT
    elif plain is None and not result and all(set(run.broke) <= set(run.expected) for run in runs):
        return State.UNKNOWN, "unfinished", "unfinished", False
    if plain is not None:
        return plain, plain.word, _TERMINAL[plain], passed
    word, terminal = _loss(verdict, runs)
    if 0 < recovered < len(runs):
        return State.SOMETIMES, f"sometimes {word}", terminal, False
    return State.REFUSED if verdict is CellVerdict.REFUSED else State.BROKEN, word, terminal, False


def _loss(verdict: CellVerdict, runs: Sequence[RunResult]) -> tuple[str, str]:
    """Return what was lost, in words and as one word for a terminal."""
    broke = {name for run in runs for name in run.broke}
    if "corruption" not in broke and verdict in (CellVerdict.REFUSED, CellVerdict.STUCK):
        return str(verdict), verdict.upper()
    return next(((words, word) for check, words, word in LOSSES if check in broke), ("broken", "BROKEN"))


def _recovered(run: RunResult) -> bool:
    return run.verdict is CellVerdict.RECOVERED or (run.verdict is CellVerdict.RECOVERED_WITH_LOSS and not run.broke)


def _kept(verdict: CellVerdict, runs: Sequence[RunResult]) -> bool:
    """Tell whether a cell failed only because a promise that it should break was kept."""
    if verdict is CellVerdict.RECOVERED:
        return True
    broke = {name for run in runs for name in run.broke}
    return bool(broke) and all(set(run.broke) <= set(run.expected) for run in runs)
