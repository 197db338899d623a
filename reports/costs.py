"""The section on costs: the scorecard, the advice, and a chart for bytes, recovery time, lost steps and tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from chaos import growth as growths
from chaos.growth import Fit
from chaos.record import Record
from chaos.reports.advice import ORDER, Advice, advice
from chaos.reports.charts import charts, money
from chaos.reports.crash_free import CrashFree
from chaos.reports.evidence import Journals
from chaos.reports.growth import HEIGHT, WIDTH, Panel, panels
from chaos.reports.numbers import by_strategy, costs, exercised, place
from chaos.reports.picture import Chart, Table
from chaos.reports.scorecard import FORMULA, Row, scorecard
from chaos.reports.text import size
from chaos.results import Campaign, RunResult
from chaos.tax import Tax, TaxRow

COUNTED_JOURNALS = 1000  # for duplicate effects: a millisecond or two each
GROWTH_JOURNALS = 12  # of one strategy: so many places show how it grows
NEAR = 0.15  # an exponent so close to a whole number is named by it
GROWN = 2.0  # times as many steps at the last crash as at the first: over less, an exponent is noise


@dataclass(frozen=True)
class View:
    """All that the section shows.

    *growth* is of the crashes of this campaign, in pictures of *width* and *height*; empty where a storage tax was
    *measured*. *grown* says where *exponents* are from.
    """

    advice: Advice
    order: str
    rows: tuple[Row, ...]
    formula: str
    price: float
    charts: tuple[Chart, ...]
    growth: tuple[Panel, ...]
    exponents: Table
    grown: str
    measured: bool
    width: int = WIDTH
    height: int = HEIGHT

    def money(self, tokens: float) -> str:
        """Return what so many *tokens* cost."""
        return money(tokens, self.price)


def view(campaign: Campaign, journals: Journals, crash_free: Mapping[str, CrashFree], tax: Tax | None) -> View | None:
    """Return what the costs section of *campaign* shows; None if no fault landed anywhere.

    Args:
        crash_free: what the crash-free runs of each strategy show, as far as that is known.
        tax: measured beside the campaign, if it was.
    """
    found = costs(campaign)
    if not found:
        return None
    runs = by_strategy(campaign)
    told = advice(campaign)
    counted = duplicates(filter(exercised, campaign.runs), journals)
    rows = scorecard(found, runs, told, counted, {name: free.committing for name, free in crash_free.items()})
    grown = {} if tax else {name: stored_at_crashes(own, journals) for name, own in runs.items()}
    exponents = _exponents(tax, grown)
    return View(
        advice=told,
        order=ORDER,
        rows=rows,
        formula=FORMULA,
        price=campaign.info.price,
        charts=charts(found, exponents, campaign.info.price),
        growth=panels([row for name in exponents for row in grown.get(name, ())]),
        exponents=_table(exponents, grown),
        grown=_grown(tax, exponents),
        measured=tax is not None,
    )


def duplicates(runs: Iterable[RunResult], journals: Journals) -> dict[str, tuple[int, int]]:
    """Return by strategy the effects that happened too often, and in how many runs they could be counted."""
    found: dict[str, tuple[int, int]] = {}
    for run in islice(runs, COUNTED_JOURNALS):
        if (more := journals.duplicates(run)) is not None:
            count, counted = found.get(run.strategy, (0, 0))
            found[run.strategy] = count + more, counted + 1
    return found


def stored_at_crashes(runs: Sequence[RunResult], journals: Journals) -> tuple[TaxRow, ...]:
    """Return what was stored at first crashes in that scenario of *runs* which has them after most different steps.

    A run that dies after N steps leaves what a run of N steps leaves; so crashes all over a run show how it grows.
    """
    steps: dict[str, dict[int, RunResult]] = {}
    for run in runs:
        step, _, recovering = place(run.landed[0].at)
        if step is not None and not recovering and run.journal and run.survival != "store":
            steps.setdefault(run.scenario, {}).setdefault(step, run)
    best = max(steps.values(), key=len, default={})
    ordered = [best[step] for step in sorted(best)]
    apart = max((len(ordered) - 1) / (GROWTH_JOURNALS - 1), 1.0)
    chosen = [round(apart * which) for which in range(min(len(ordered), GROWTH_JOURNALS))]
    rows: dict[int, TaxRow] = {}
    for run in (ordered[which] for which in chosen):
        events = journals.events(run.journal)[0]
        for row in growths.rows(Record(events))[:1]:
            rows.setdefault(
                row.n,
                TaxRow(
                    strategy=run.strategy, n=row.n, stored_bytes=row.stored_bytes, written_bytes=row.written_bytes,
                    step_ms=row.step_ms, resume_ms=row.resume_ms,
                ),
            )  # fmt: skip
    return tuple(rows[n] for n in sorted(rows))


def _exponents(tax: Tax | None, grown: Mapping[str, Sequence[TaxRow]]) -> dict[str, Fit | None]:
    """Return how stored bytes grow by strategy, from a storage tax or else from crashes far enough apart."""
    if tax:
        return {each.strategy: each.stored for each in tax.exponents}
    apart = {name: rows for name, rows in grown.items() if len(rows) > 2 and rows[-1].n >= GROWN * rows[0].n}
    return {name: growths.fit([(row.n, row.stored_bytes) for row in rows]) for name, rows in apart.items()}


def _grown(tax: Tax | None, exponents: Mapping[str, Fit | None]) -> str:
    if tax:
        return "How storage grows over N was measured beside this campaign"
    if exponents:
        return (
            "Stored bytes at the crashes of this campaign, after N steps, both axes logarithmic; dashed: written until "
            "then. So few steps show the constant part more than the growth: it is measured over more of them by"
        )
    return "How storage grows over N cannot be told from few crashes, or from like numbers of steps. It is measured by"


def _table(exponents: Mapping[str, Fit | None], grown: Mapping[str, Sequence[TaxRow]]) -> Table:
    rows = []
    for strategy, fit in exponents.items():
        own = grown.get(strategy, ())
        spans = (
            (f"{own[0].n} to {own[-1].n}", f"{size(own[0].stored_bytes)} to {size(own[-1].stored_bytes)}")
            if own
            else ("–", "–")
        )
        fitted = (grows(fit), f"{fit.last:.2f}", f"{fit.r2:.3f}") if fit else ("nothing is stored", "–", "–")
        rows.append((strategy, *spans, *fitted))
    head = ("strategy", "steps", "stored bytes", "they grow", "last doubling", "R²")
    return Table("Growth of storage, by strategy", head, tuple(rows))


def grows(fit: Fit) -> str:
    """Return how bytes grow by *fit*, in words where its exponent is near a whole number."""
    words = {0: "hardly", 1: "linearly", 2: "with the square"}
    near = round(fit.exponent)
    told = words.get(near, "") if abs(fit.exponent - near) <= NEAR else ""
    power = f"with N^{fit.exponent:.2f}"
    return f"{told}, {power}" if told else power
