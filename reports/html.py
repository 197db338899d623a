"""One HTML file from a results folder: self-contained, offline, readable without JavaScript.

The template does the layout; here is what it lays out, and the limits that keep thousands of runs under 11 MB. Evidence
that is too large for a page goes into a folder beside it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from chaos import history, tax
from chaos.errors import HarnessError
from chaos.reports import costs, crashmap, growth, numbers, text, trend
from chaos.reports import matrix as matrices
from chaos.reports.bands import bands
from chaos.reports.beside import Beside
from chaos.reports.beside import write as write_beside
from chaos.reports.cells import State
from chaos.reports.correctness import correctness
from chaos.reports.crash_free import crash_free
from chaos.reports.evidence import Journals
from chaos.reports.failures import before, failures
from chaos.reports.making import made_how
from chaos.reports.matrix import Matrix
from chaos.reports.outside import outside
from chaos.reports.sections import Sections, by_cell
from chaos.results import Campaign, RunResult

DETAILED_FAILURES = 250  # causes with evidence, the bad ones first: 15 to 25 kB each
DETAILED_CELLS = 150  # cells without a failure that have the evidence of a run: about 6 kB each
READ_JOURNALS = 1000  # for counting duplicate effects: a few milliseconds each
PAGE = Path("report.html")
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Page:
    """A report: the page, and the files of the folder beside it."""

    html: str
    folder: str
    files: Mapping[str, str]


def render(campaign: Campaign, results_folder: Path, page: Path = PAGE) -> str:
    """Return the page alone; its links to large evidence work where `write` has written it."""
    return build(campaign, results_folder, page).html


def write(campaign: Campaign, results_folder: Path, page: Path) -> None:
    """Write the report on *campaign* as the file *page*, and what is too large for it beside it.

    Raises:
        OSError: it cannot be written there.
    """
    made = build(campaign, results_folder, page)
    page.write_text(made.html, encoding="utf-8")
    write_beside(page.parent / made.folder, made.files)


def build(campaign: Campaign, results_folder: Path, page: Path = PAGE) -> Page:
    """Return the report on *campaign*; journals, history and a storage tax in *results_folder* may be missing.

    Args:
        page: what the page will be called; the folder beside it is named after it.
    """
    matrix = matrices.of(campaign)
    journals, beside = Journals(results_folder), Beside(f"{page.stem}-data")
    entries = _history(campaign, results_folder)
    earlier = before(campaign, entries)
    found = failures(matrix.judged, earlier)
    sections, told = Sections(journals, beside), by_cell(found)
    good = [cell for cell in matrix.judged if cell.good]
    ordered = [*matrix.bad, *sorted(good, key=lambda cell: cell.state is State.RECOVERED)]
    plain = sum(cell.anchor not in told for cell in ordered)
    measured, free = tax.read(results_folder), crash_free(campaign.runs, journals)
    cells, shown = [], 0
    failing = [sections.failure(each, place, place < DETAILED_FAILURES) for place, each in enumerate(found)]
    for cell in ordered:
        cells.append(sections.cell(cell, told.get(cell.anchor, ()), shown < DETAILED_CELLS))
        shown += cell.anchor not in told
    text_of_page = (
        _environment()
        .get_template("report.html.j2")
        .render(
            campaign=campaign,
            info=campaign.info,
            matrix=matrix,
            bands=bands(matrix),
            choices=_choices(matrix),
            figures=matrices.figures(matrix, campaign, _duplicates(campaign.runs, journals)),
            failures=failing,
            plain_failures=max(len(failing) - DETAILED_FAILURES, 0),
            cells=cells,
            plain_cells=max(plain - DETAILED_CELLS, 0),
            targets={
                cell.anchor: (told[cell.anchor][0].anchor if cell.anchor in told else cell.anchor) for cell in ordered
            },
            since=earlier.since(found) if earlier else "",
            costs=costs.view(campaign, journals, free, measured),
            claims=numbers.claims(campaign),
            correctness=correctness(campaign),
            outside=outside(campaign),
            made_how=made_how(campaign),
            maps=crashmap.maps(campaign, {name: each.points for name, each in free.items()}),
            trend=trend.trend(trend.until(campaign, entries)),
            growth=growth.view(measured) if measured else None,
            beside=beside.folder if beside.files else "",
            State=State,
        )
    )
    return Page(text_of_page, beside.folder, beside.files)


def _choices(matrix: Matrix) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return what the page can be filtered by."""
    columns = {cell.column.label: None for cell in matrix.cells}
    states = {cell.state.word: None for cell in sorted(matrix.cells, key=lambda cell: list(State).index(cell.state))}
    return (
        ("strategy", tuple(row.strategy for row in matrix.rows)),
        ("fault", tuple(columns)),
        ("verdict", tuple(states)),
    )


def _history(campaign: Campaign, folder: Path) -> tuple[history.Entry, ...]:
    """Return the campaigns that the history of *campaign* knows, or else that in *folder*; none if it is unreadable."""
    named = Path(campaign.info.history)
    try:
        return history.read(named if named.is_file() else folder / history.FILE)
    except HarnessError:
        return ()


def _duplicates(runs: Sequence[RunResult], journals: Journals) -> int | None:
    """Return the duplicate effects of all runs whose journals can be read; None if none can."""
    counts = [journals.duplicates(run) for run in runs[:READ_JOURNALS]]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


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
        moment=text.moment,
        wait_status=text.wait_status,
        listing=text.listing,
        made=text.made,
    )
    script = (_TEMPLATES / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment.globals.update(
        mask_value=text.mask_value,
        style=Markup("".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("style.css", "figures.css"))),
        script=Markup(script),
        script_digest=Markup(f"sha256-{digest}"),
    )
    return environment
