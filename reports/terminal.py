"""The plain-text end of a pytest run: the matrix in words, what each strategy costs, what broke and its replay."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence

from chaos.history import percentile
from chaos.reports import matrix as matrices
from chaos.reports.bands import Band, bands
from chaos.reports.cells import Cell, Column, State
from chaos.reports.correctness import Correctness, Share, correctness
from chaos.reports.failure_text import codes_of_cell, explain
from chaos.reports.making import made_how
from chaos.reports.matrix import Matrix
from chaos.reports.numbers import Costs, costs
from chaos.reports.outside import outside
from chaos.reports.text import clip, listing, made, mask, number, plural, seconds, size
from chaos.results import Campaign

EXPLAINED_CELLS = 20  # a terminal's page or two; the report has them all
LABEL_WIDTH = 32  # longer names are cut: the numbers beside them matter more
MIN_WIDTH = 40  # below this nothing can be a table
_GAP = "  "


def render(campaign: Campaign, report_path: str | None, width: int, closing: Sequence[str] = ()) -> list[str]:
    """Return the lines that sum up *campaign* in *width* columns; replay commands are never broken.

    Args:
        closing: what the gates say: thresholds, the baseline, the budget.
    """
    width = max(width, MIN_WIDTH)
    matrix = matrices.of(campaign)
    lines = [
        *_matrix_table(matrix, width),
        *_correctness_table(correctness(campaign), width),
        *_costs_table(costs(campaign), width),
        *_outside(campaign, width),
        "",
        *_summary(matrix, campaign),
    ]
    for line in made_how(campaign):
        lines += _wrapped(line, width)
    if report_path:
        lines.append(f"report: {report_path}")
    for line in closing:
        lines += _wrapped(line, width)
    lines += _skips(matrix, width)
    lines += _explanations(matrix, width)
    return [mask(_printable(line)).rstrip() for line in lines]


def _matrix_table(matrix: Matrix, width: int) -> list[str]:
    """Return the strategy x fault table in bands, and each in as many blocks of columns as *width* needs."""
    if not matrix.rows:
        return ["no cell was run"]
    label = max(len(_cut(row.strategy)) for row in matrix.rows)
    lines = [line for band in bands(matrix) for line in _band_table(band, label, width)]
    if any(cell.state is State.EXPECTED for cell in matrix.cells):
        lines += [
            *_wrapped("k/n: runs that recovered; in small letters what the scenario expects to be lost", width),
            "",
        ]
    return lines


def _band_table(band: Band, label: int, width: int) -> list[str]:
    """Return one piece of the table; *label* is the width of the strategies' names."""
    heads = [_head(column) for column in band.columns]
    bodies = [[_words(row.cells[i]) for row in band.rows] for i in range(len(heads))]
    widths = [max(len(word) for word in (*heads[i], *bodies[i])) for i in range(len(heads))]
    lines: list[str] = []
    for block in _blocks(widths, width - label):
        for line in (0, 1):
            if any(heads[i][line] for i in block):
                lines.append(_row("", label, [heads[i][line].ljust(widths[i]) for i in block]))
        for number_, row in enumerate(band.rows):
            if all(row.cells[i] is None for i in block):
                continue  # this strategy met none of these faults
            lines.append(_row(_cut(row.strategy), label, [bodies[i][number_].ljust(widths[i]) for i in block]))
        lines.append("")
    return lines


def _blocks(widths: Sequence[int], room: int) -> list[list[int]]:
    """Return the columns' indices, split so that each block fits into *room*."""
    blocks: list[list[int]] = [[]]
    used = 0
    for i, column in enumerate(widths):
        if blocks[-1] and used + column + len(_GAP) > room:
            blocks.append([])
            used = 0
        blocks[-1].append(i)
        used += column + len(_GAP)
    return blocks


def _row(label: str, width: int, words: Sequence[str]) -> str:
    return _GAP.join([label.ljust(width), *words])


def _head(column: Column) -> tuple[str, str]:
    """Return the two header lines of a column: the scenario only where the fault alone is ambiguous."""
    return _cut(column.scenario) if column.label != column.fault else "", _cut(column.fault)


def _words(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    return cell.terminal if cell.state in (State.SKIPPED, State.NOT_EXERCISED) else f"{cell.terminal} {_share(cell)}"


def _share(cell: Cell) -> str:
    return f"{cell.recovered}/{len(cell.runs)}"


def _outside(campaign: Campaign, width: int) -> list[str]:
    told = outside(campaign)
    return ["", *(line for each in told for line in _wrapped(each.sentence, width))] if told else []


def _costs_table(found: Sequence[Costs], width: int) -> list[str]:
    """Return what a run of each strategy costs, without the last columns where there is no room for them."""
    if not found:
        return []
    rows: list[tuple[str, ...]] = [
        ("medians", "RPO", "RTO", "RTO p95", "asked again (mean)", "stored a step", "written a step"),
    ]
    rows += [
        (
            _cut(cost.strategy),
            number(percentile(cost.rpo, 0.5)),
            seconds(percentile(cost.rto, 0.5)),
            seconds(percentile(cost.rto, 0.95)),
            f"{number(cost.asked_again)} tokens",
            size(cost.stored),
            size(cost.written),
        )
        for cost in found
    ]
    while max(map(len, _aligned(rows))) > width:
        rows = [row[:-1] for row in rows]
    return _aligned(rows)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return *rows* as lines: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        _GAP.join([row[0].ljust(widths[0]), *(word.rjust(widths[i]) for i, word in enumerate(row) if i)])
        for row in rows
    ]


def _correctness_table(found: Correctness, width: int) -> list[str]:
    """Return the share of runs that recovered, by what the faults took away, and its spread over the strategies."""
    if not found.rows:
        return []
    rows = [("recovered", *found.classes)]
    rows += [(_cut(strategy), *(_percent(share) for share in shares)) for strategy, shares in found.rows]
    spread = _wrapped(f"spread, {found.spread}", width) if found.spread else []
    return [*_aligned(rows), *spread, ""]


def _percent(share: Share | None) -> str:
    return f"{share.percent} % {share.recovered}/{share.runs}" if share else "-"


def _summary(matrix: Matrix, campaign: Campaign) -> list[str]:
    landed, planned = matrix.landed
    lines = [f"{landed}/{planned} planned faults landed", f"seed {campaign.info.seed}"]
    if known := sum(cell.state is State.KNOWN for cell in matrix.cells):
        lines.append(f"{plural(known, 'known failure')} accepted")
    if elsewhere := Counter(run.backend for run in campaign.runs if run.backend not in ("", "process")):
        lines.append(", ".join(f"{runs} of {len(campaign.runs)} runs in {name}" for name, runs in elsewhere.items()))
    if shards := campaign.info.shards:
        lines.append(f"merged from {made(shards)}")
    if campaign.unjudged:
        ended = "incomplete" if shards else "ended early"
        lines.append(f"{ended}: {campaign.unjudged} of {campaign.planned} cells were not judged")
    if campaign.elsewhere:
        parts = f"{len(campaign.elsewhere)} of {campaign.planned} cells have parts in other shards"
        lines.append(f"{parts}: `pytest-chaos merge` judges them")
    if matrix.replay:
        lines.append(f"replay: {matrix.replay}")
    return lines


def _skips(matrix: Matrix, width: int) -> list[str]:
    lines: list[str] = []
    for reason, names in matrix.skips:
        lines += _wrapped(f"skipped: {listing(names)}: {clip(reason)}", width)
    return lines


def _explanations(matrix: Matrix, width: int) -> list[str]:
    """Return, for each cell that is not as promised, why in one sentence and its replay command."""
    lines: list[str] = []
    for cell in matrix.bad[:EXPLAINED_CELLS]:
        why = f"{clip(cell.why) or cell.verdict} [{', '.join(codes_of_cell(cell))}]"
        lines += ["", *_wrapped(f"{cell.terminal} {cell.name}: {why}", width)]
        if cell.replay:
            lines.append(f"    replay: {cell.replay}")
        for minimal in cell.minimal:
            lines += _wrapped(f"    smallest: {clip(minimal.sentence)}", width)
            if minimal.replay not in ("", cell.replay):
                lines.append(f"    replay: {minimal.replay}")
            if minimal.bundle:
                lines.append(f"    kept: {minimal.bundle} (among the results)")
    if (cut := len(matrix.bad) - EXPLAINED_CELLS) > 0:
        lines += ["", f"and {cut} more such cells: see the report"]
    if matrix.bad:
        lines += ["", *_wrapped(explain(codes_of_cell(matrix.bad[0])), width)]
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _cut(label: str) -> str:
    return label if len(label) <= LABEL_WIDTH else f"{label[: LABEL_WIDTH - 1]}…"


def _printable(line: str) -> str:
    """Return *line* without control characters: a finding quotes what an agent wrote."""
    return "".join(char if char.isprintable() else "�" for char in line)
