"""A matrix in pieces that are mostly full: scenarios with other strategies are another table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.reports.cells import Column
from chaos.reports.matrix import Matrix, Row

FULL = 2 / 3
"""Share of the fields of a piece that have a cell: two of three, so that the eye finds more cells than holes."""


@dataclass(frozen=True)
class Band:
    """Some columns of a matrix, and the rows that have a cell in one of them."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


def bands(matrix: Matrix) -> tuple[Band, ...]:
    """Return the columns of *matrix*, scenario by scenario, joined as long as the piece stays mostly full."""
    scenarios: dict[str, list[int]] = {}
    for i, column in enumerate(matrix.columns):
        scenarios.setdefault(column.scenario, []).append(i)
    found: list[list[int]] = []
    for columns in scenarios.values():
        joined = next((band for band in found if _full(matrix, [*band, *columns])), None)
        if joined is None:
            found.append(list(columns))
        else:
            joined += columns
    return tuple(_band(matrix, columns) for columns in found)


def _full(matrix: Matrix, columns: Sequence[int]) -> bool:
    rows = _band(matrix, columns).rows
    cells = sum(cell is not None for row in rows for cell in row.cells)
    return cells >= FULL * len(rows) * len(columns)


def _band(matrix: Matrix, columns: Sequence[int]) -> Band:
    rows = (Row(row.strategy, tuple(row.cells[i] for i in columns)) for row in matrix.rows)
    return Band(tuple(matrix.columns[i] for i in columns), tuple(row for row in rows if any(row.cells)))
