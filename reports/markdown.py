"""A campaign as Markdown, for the page of a CI job: verdict, matrix, and each failure folded up with its replay."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from chaos import codes
from chaos.reports import matrix as matrices
from chaos.reports.bands import Band, bands
from chaos.reports.cells import Cell, State
from chaos.reports.matrix import Matrix
from chaos.reports.text import clip, listing, mask, number, plural, seconds
from chaos.results import Campaign

TITLE = "## pytest-chaos"
_SPECIAL = re.compile(r"([\\`*_{}\[\]|~#])")


def sections(campaign: Campaign, closing: Sequence[str] = (), report: str = "") -> list[str]:
    """Return the sections of the page, the most important first: whoever has little room leaves out the last ones.

    Args:
        closing: what the gates say.
        report: where the report is; "" for none.
    """
    matrix = matrices.of(campaign)
    return [
        _head(matrix, campaign, closing, report),
        *(_table(band) for band in bands(matrix)),
        *(_failure(cell) for cell in matrix.bad),
        *_skips(matrix),
    ]


def _head(matrix: Matrix, campaign: Campaign, closing: Sequence[str], report: str) -> str:
    head, (landed, planned) = matrix.headline, matrix.landed
    lines = [f"{TITLE}: {head.state.icon} {escaped(head.word)}", "", escaped(f"{head.sentence} {head.rest}".strip())]
    facts = [f"{landed} of {planned} planned faults landed", f"seed `{campaign.info.seed}`"]
    if campaign.unjudged:
        facts.append(f"**{campaign.unjudged} of {campaign.planned} cells were not judged**")
    lines += ["", " · ".join([*facts, *([f"report: `{report}`"] if report else [])])]
    lines += ["", *(f"- {escaped(line)}" for line in closing)] if closing else []
    lines += ["", "Replay the worst:", "", fenced(matrix.replay)] if matrix.bad and matrix.replay else []
    return "\n".join(lines) + "\n"


def _table(band: Band) -> str:
    heads = [escaped(column.label) for column in band.columns]
    lines = [f"| | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    lines += [f"| **{escaped(row.strategy)}** | {' | '.join(map(_cell, row.cells))} |" for row in band.rows]
    return "\n".join(lines) + "\n"


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    if cell.state in (State.SKIPPED, State.NOT_EXERCISED):
        return f"{cell.state.icon} {cell.word}"
    told = f"{cell.state.icon} {escaped(cell.word)} {cell.recovered}/{len(cell.runs)}"
    return f"{told}<br>RPO {number(cell.rpo)}, RTO {seconds(cell.rto)}" if cell.rpo is not None else told


def _failure(cell: Cell) -> str:
    run = cell.first_interesting
    lines = [
        f"<details><summary>{cell.state.icon} <b>{_plain(cell.name)}</b>: {_plain(clip(cell.why))}</summary>",
        "",
    ]
    for name in run.broke if run else ():
        finding = run.checks[name].finding if run and name in run.checks else ""
        lines.append(f"- {escaped(name)} [`{codes.of_check(name)}`]: {escaped(clip(finding))}")
    lines += [f"- smallest: {escaped(clip(minimal.sentence))}" for minimal in cell.minimal]
    details = [
        line for name in (run.broke if run else ()) if run and name in run.checks for line in run.checks[name].details
    ]
    lines += ["", fenced("\n".join(mask(clip(line)) for line in details[:20]))] if details else []
    lines += ["", "Replay:", "", fenced(cell.replay)] if cell.replay else []
    return "\n".join([*lines, "", "</details>"]) + "\n"


def _skips(matrix: Matrix) -> list[str]:
    lines = [f"- {escaped(listing(names))}: {escaped(clip(reason))}" for reason, names in matrix.skips]
    if not lines:
        return []
    count = sum(len(names) for _, names in matrix.skips)
    return [
        "\n".join([f"<details><summary>{plural(count, 'cell')} skipped</summary>", "", *lines, "", "</details>"]) + "\n"
    ]


def escaped(text: str) -> str:
    """Return *text* so that Markdown shows it as it is, in a table too, with secrets masked."""
    return _SPECIAL.sub(r"\\\1", _plain(text))


def fenced(text: str) -> str:
    """Return *text* as a block of code, whatever is in it."""
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{mask(text)}\n{fence}"


def _plain(text: str) -> str:
    """Return *text* for HTML, on one line, with secrets masked."""
    return html.escape(" ".join(mask(text).split()), quote=False)
