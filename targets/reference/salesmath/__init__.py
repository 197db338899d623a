"""Figures of a table of sales. Shipped to the agent as a wheel: standard library only, no other module of ours."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import NamedTuple

COLUMNS = ("date", "customer", "product", "cents")


class Sale(NamedTuple):
    """One row; *date* is "YYYY-MM-DD"."""

    date: str
    customer: str
    product: str
    cents: int


def read(text: str) -> tuple[Sale, ...]:
    """Return the rows of a CSV text with a header line."""
    return tuple(Sale(row[0], row[1], row[2], int(row[3])) for row in list(csv.reader(io.StringIO(text)))[1:])


def write(sales: Iterable[Sale]) -> str:
    """Return *sales* as a CSV text with a header line."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *sales])
    return text.getvalue()


def answer(sales: tuple[Sale, ...], query: dict[str, str]) -> dict[str, object]:
    """Return the answer to *query*: {"kind": "total" | "month" | "customer" | "product" | "top" | "ping", ...}."""
    kind, name = query.get("kind", ""), query.get("name", "")
    if kind == "ping":
        return {"rows": len(sales)}
    if kind == "total":
        return {"cents": sum(sale.cents for sale in sales)}
    if kind == "month":
        return {"name": name, "cents": sum(sale.cents for sale in sales if sale.date[5:7] == name)}
    if kind in ("customer", "product"):
        return {"name": name, "cents": sum(sale.cents for sale in sales if getattr(sale, kind) == name)}
    if kind == "top":
        sums: dict[str, int] = {}
        for sale in sales:
            key = str(getattr(sale, name, ""))
            sums[key] = sums.get(key, 0) + sale.cents
        best = min(sums, key=lambda key: (-sums[key], key), default="")
        return {"name": best, "cents": sums.get(best, 0)}
    return {"error": f"no query {kind!r}"}
