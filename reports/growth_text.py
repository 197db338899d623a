"""The storage tax in plain text: one line for each strategy, at the N that others publish and at the largest."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.growth import Fit
from chaos.reports import growth
from chaos.reports.growth import Line
from chaos.reports.text import megabytes, size
from chaos.tax import Tax

PUBLISHED_N = 200  # where most published figures are
_GAP = "  "


def lines(tax: Tax) -> list[str]:
    """Return the lines that sum up *tax*."""
    table = growth.table(tax)
    text = [""]
    last = {row.strategy: row.n for row in tax.rows}
    for n in sorted({PUBLISHED_N, *last.values()}):
        whole = n in (PUBLISHED_N, max(last.values(), default=0))  # elsewhere only those that come no further
        block = [line for line in table if line.row.n == n and (whole or last[line.row.strategy] == n)]
        text += [*_block(n, tax.bytes_per_step, block), ""] if block else []
    text += [*_exponents(table), ""]
    text += [f"published: {remark}" for remark in growth.remarks(tax.published)]
    text += [f"skipped: {strategy}: {reason}" for strategy, reason in tax.skipped.items()]
    text += [f"NOT A RESULT: {problem}" for problem in tax.problems]
    return [*text, growth.sentence(tax)]


def _block(n: int, s: int, table: Sequence[Line]) -> list[str]:
    rows = [
        (f"N = {n}, s = {size(s)}", "stored", "model", "published", "written", "model", "step", "resume"),
        *(_row(line) for line in table),
    ]
    return _aligned(rows)


def _row(line: Line) -> tuple[str, ...]:
    row, model, cited = line.row, line.model, line.cited
    return (
        row.strategy,
        megabytes(row.stored_bytes),
        megabytes(model.stored_bytes if model else None),
        f"{megabytes(cited.stored_bytes)} ({cited.kind})" if cited else "–",
        megabytes(row.written_bytes),
        megabytes(model.written_bytes if model else None),
        "–" if row.step_ms is None else f"{row.step_ms:.1f} ms",
        "–" if row.resume_ms is None else f"{row.resume_ms:.0f} ms",
    )


def _exponents(table: Sequence[Line]) -> list[str]:
    rows = [("grows with N to the", "stored", "last", "R²", "written", "last", "R²")]
    rows += [(line.row.strategy, *_fitted(line.stored), *_fitted(line.written)) for line in table if line.first]
    return _aligned(rows)


def _fitted(fit: Fit | None) -> tuple[str, str, str]:
    return (f"{fit.exponent:.2f}", f"{fit.last:.2f}", f"{fit.r2:.3f}") if fit else ("–", "–", "–")


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        _GAP.join([row[0].ljust(widths[0]), *(cell.rjust(widths[i]) for i, cell in enumerate(row) if i)]).rstrip()
        for row in rows
    ]
