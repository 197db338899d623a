"""One HTML file from a results folder: self-contained, offline, readable without JavaScript.

The template does the layout; here is what it lays out, and the limits that keep hundreds of runs under a few MB.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from chaos import tax
from chaos.reports import drawing, growth, numbers, text
from chaos.reports import matrix as matrices
from chaos.reports.bands import bands
from chaos.reports.cells import Cell, State
from chaos.reports.correctness import correctness
from chaos.reports.evidence import Evidence, Journals
from chaos.reports.making import made_how
from chaos.reports.outside import outside
from chaos.results import Campaign, RunResult
from chaos.verdict import CellVerdict, Outcome

DETAILED_CELLS = 150  # cells with evidence, the bad ones first: about 10 kB each
SHOWN_RUNS = 25  # of one cell: what broke comes first, the rest is the same again
DETAIL_LINES = 30  # of one check: the head of a diff shows what differs
READ_JOURNALS = 1000  # for counting duplicate effects: a few milliseconds each
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class RunView:
    """One row of a cell's runs table."""

    run: RunResult
    landed: tuple[tuple[str, str, str], ...]  # fault, point, proof
    findings: tuple[str, ...]


@dataclass(frozen=True)
class CheckView:
    """What one check said over a cell's runs; *finding* and *details* are of the run that is shown."""

    name: str
    outcomes: tuple[tuple[str, int], ...]
    worst: str
    expected: bool
    finding: str
    details: tuple[str, ...]
    cut: int

    @property
    def quiet(self) -> bool:
        """Tell whether it passed everywhere and has nothing to say."""
        return self.worst == "pass" and not self.finding and not self.details and not self.expected


@dataclass(frozen=True)
class CellView:
    """The evidence section of one cell."""

    cell: Cell
    open: bool
    runs: tuple[RunView, ...]
    cut_runs: int
    checks: tuple[CheckView, ...]
    shown: RunResult | None
    evidence: Evidence | None
    timeline: drawing.TimelineDrawing | None


def render(campaign: Campaign, results_folder: Path) -> str:
    """Return the report on *campaign*; journals and a storage tax in *results_folder* may be missing."""
    matrix = matrices.of(campaign)
    journals = Journals(results_folder)
    good = [cell for cell in matrix.judged if cell.good]
    ordered = [*matrix.bad, *sorted(good, key=lambda cell: cell.state is State.RECOVERED)]
    views = tuple(_cell(cell, journals, place < DETAILED_CELLS) for place, cell in enumerate(ordered))
    coverage = numbers.coverage(campaign, _reached(campaign.runs, journals))
    measured = tax.read(results_folder)
    template = _environment().get_template("report.html.j2")
    return template.render(
        campaign=campaign,
        info=campaign.info,
        matrix=matrix,
        bands=bands(matrix),
        figures=matrices.figures(matrix, campaign, _duplicates(campaign.runs, journals)),
        cells=views,
        sections={view.cell.anchor for view in views},
        costs=numbers.costs(campaign),
        claims=numbers.claims(campaign),
        correctness=correctness(campaign),
        outside=outside(campaign),
        made_how=made_how(campaign),
        coverage=[(found, drawing.grid(found)) for found in coverage],
        undetailed=max(len(views) - DETAILED_CELLS, 0),
        growth=growth.view(measured) if measured else None,
        State=State,
    )


def _cell(cell: Cell, journals: Journals, detailed: bool) -> CellView:
    """Return the section of *cell*; the evidence is of its first interesting run."""
    shown = cell.first_interesting
    found = journals.of(shown) if shown and detailed else None
    ordered = sorted(cell.runs, key=lambda run: run.verdict is CellVerdict.RECOVERED)
    return CellView(
        cell=cell,
        open=not cell.good,
        runs=tuple(map(_run, ordered[:SHOWN_RUNS])),
        cut_runs=max(len(ordered) - SHOWN_RUNS, 0),
        checks=_checks(cell, shown) if shown else (),
        shown=shown,
        evidence=found,
        timeline=drawing.timeline(found.timeline) if found and found.timeline else None,
    )


def _run(run: RunResult) -> RunView:
    failed = [verdict for verdict in run.checks.values() if verdict.outcome is not Outcome.PASS]
    return RunView(
        run=run,
        landed=tuple((landed.fault, landed.at, text.proved(landed)) for landed in run.landed),
        findings=tuple(text.clip(verdict.finding) for verdict in failed if verdict.finding),
    )


def _checks(cell: Cell, shown: RunResult) -> tuple[CheckView, ...]:
    """Return what each check said: the worst first, then in the scenario's order."""
    views = []
    for name in dict.fromkeys(name for run in cell.runs for name in run.checks):
        outcomes = Counter(run.checks[name].outcome for run in cell.runs if name in run.checks)
        # The run that is shown may have passed what another one broke.
        of = max((shown, *cell.runs), key=lambda run: run.checks[name].outcome if name in run.checks else -1)
        details = of.checks[name].details
        views.append(
            CheckView(
                name=name,
                outcomes=tuple((outcome.name.lower(), outcomes[outcome]) for outcome in sorted(outcomes, reverse=True)),
                worst=max(outcomes).name.lower(),
                expected=name in shown.expected,
                finding=text.clip(of.checks[name].finding),
                details=tuple(map(text.clip, details[:DETAIL_LINES])),
                cut=max(len(details) - DETAIL_LINES, 0),
            )
        )
    return tuple(sorted(views, key=lambda view: -Outcome[view.worst.upper()]))


def _duplicates(runs: Sequence[RunResult], journals: Journals) -> int | None:
    """Return the duplicate effects of all runs whose journals can be read; None if none can."""
    counts = [journals.duplicates(run) for run in runs[:READ_JOURNALS]]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _reached(runs: Sequence[RunResult], journals: Journals) -> dict[str, frozenset[tuple[int, str]]]:
    """Return the points of each strategy's reference run."""
    references = {run.strategy: run.reference for run in runs if run.reference}
    return {strategy: journals.points(path) for strategy, path in references.items()}


@cache
def _environment() -> jinja2.Environment:
    """Return the templates' environment: everything that they print is masked, then escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: text.mask(value) if type(value) is str else value,  # not markup, which is ours
    )
    environment.filters.update(
        seconds=text.seconds,
        number=text.number,
        size=text.size,
        megabytes=text.megabytes,
        plural=text.plural,
        clip=text.clip,
        wait_status=text.wait_status,
        listing=text.listing,
        made=text.made,
    )
    script = (_TEMPLATES / "copy.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment.globals.update(
        mask_value=text.mask_value,
        style=Markup((_TEMPLATES / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_digest=Markup(f"sha256-{digest}"),
    )
    return environment
