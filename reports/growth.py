"""The storage tax as it is shown: a panel for each strategy with its variants, and the table beside it.

Scales are computed here, the template only writes the numbers down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chaos.growth import Fit
from chaos.reports.drawing import Text
from chaos.reports.text import megabytes, size
from chaos.tax import Cited, Modelled, Tax, TaxRow

WIDTH, HEIGHT = 380, 250  # of a panel's coordinate system: one fills a phone, three stand beside each other on a page
COLOURS = 8  # that can be told apart; a strategy with more variants uses them again
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 128, 10, 26
_LABEL = 12.0  # the least distance of two labels below each other
_LONGEST = 20  # characters of a label that fit beside the curves


@dataclass(frozen=True)
class Curve:
    """One variant of a strategy: paths of what is stored and of what was written, "" where there is nothing."""

    css: str
    stored: str
    written: str
    label: Text


@dataclass(frozen=True)
class Panel:
    """One strategy in front of all others, which are faint."""

    name: str
    described: str
    grid: str
    ticks: tuple[Text, ...]
    others: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Line:
    """A row of the table: what was measured, what arithmetic says, what was published for the same N."""

    row: TaxRow
    first: bool  # of its strategy
    model: Modelled | None
    cited: Cited | None
    stored: Fit | None
    written: Fit | None


@dataclass(frozen=True)
class View:
    """All that the report shows of a storage tax. *remarks* are on what was published, comparable or not."""

    tax: Tax
    width: int
    height: int
    panels: tuple[Panel, ...]
    lines: tuple[Line, ...]
    remarks: tuple[str, ...]
    formulae: tuple[tuple[str, str], ...]
    sentence: str


def view(tax: Tax) -> View:
    """Return what the report shows of *tax*."""
    return View(
        tax=tax,
        width=WIDTH,
        height=HEIGHT,
        panels=panels(tax.rows),
        lines=table(tax),
        remarks=remarks(tax.published),
        formulae=tuple({each.strategy: each.formula for each in tax.model}.items()),
        sentence=sentence(tax),
    )


def table(tax: Tax) -> tuple[Line, ...]:
    """Return the rows of *tax* with what is said about them."""
    models = {(each.strategy, each.n): each for each in tax.model}
    cited = {(each.strategy, each.n): each for each in tax.published if each.comparable}
    fits = {each.strategy: each for each in tax.exponents}
    seen: set[str] = set()
    lines = []
    for row in tax.rows:
        key, own = (row.strategy, row.n), fits.get(row.strategy)
        stored, written = (own.stored, own.written) if own else (None, None)
        lines.append(Line(row, row.strategy not in seen, models.get(key), cited.get(key), stored, written))
        seen.add(row.strategy)
    return tuple(lines)


def remarks(published: Sequence[Cited]) -> tuple[str, ...]:
    """Return what has to be known of the *published* figures, and those that stand in no table: each once."""
    found = []
    for each in published:
        figure = f"{size(each.stored_bytes)} at N = {each.n}" if each.n and not each.comparable else ""
        if said := ", ".join(filter(None, (figure, each.remark))):
            found.append(f"{each.about}, {each.kind} ({each.source}): {said}")
    return tuple(dict.fromkeys(found))


def sentence(tax: Tax) -> str:
    """Return the spread of what is stored at the largest N, over the strategies that came so far."""
    n = max((row.n for row in tax.rows), default=0)
    kept = {row.strategy: row.stored_bytes for row in tax.rows if row.n == n and row.stored_bytes}
    if not kept:
        return "Nothing was stored."
    least, most = min(kept, key=kept.__getitem__), max(kept, key=kept.__getitem__)
    return f"After {n} steps {least} stores {megabytes(kept[least])}, {most} {megabytes(kept[most])}."


def panels(rows: Sequence[TaxRow]) -> tuple[Panel, ...]:
    """Return a panel for each strategy of *rows*, all on the same axes."""
    sizes = [number for row in rows for number in (row.stored_bytes, row.written_bytes) if number > 0]
    ns = sorted({row.n for row in rows})
    if not sizes or len(ns) < 2:
        return ()
    low, high = math.floor(math.log10(min(sizes))), math.ceil(math.log10(max(sizes)))
    across = _scale(math.log(ns[0]), math.log(ns[-1]), _LEFT, WIDTH - _RIGHT)
    down = _scale(low, max(high, low + 1), HEIGHT - _BOTTOM, _TOP)

    def path(strategy: str, field: str) -> str:
        points = [(row.n, getattr(row, field)) for row in rows if row.strategy == strategy]
        places = [f"{across(math.log(n)):.1f} {down(math.log10(number)):.1f}" for n, number in points if number > 0]
        return "M" + "L".join(places) if len(places) > 1 else ""

    def end(strategy: str) -> float:
        last = [row for row in rows if row.strategy == strategy][-1]
        return down(math.log10(last.stored_bytes or last.written_bytes or 10**low))

    decades = range(low, max(high, low + 1) + 1)
    grid = "".join(f"M{_LEFT} {down(decade):.1f}H{WIDTH - _RIGHT}" for decade in decades)
    ticks = [Text(_LEFT - 6, round(down(decade) + 4, 1), size(10.0**decade), "end") for decade in decades]
    ticks += [Text(round(across(math.log(n)), 1), HEIGHT - 8, str(n), "middle") for n in _spread(ns)]
    families: dict[str, list[str]] = {}
    for strategy in dict.fromkeys(row.strategy for row in rows):
        families.setdefault(strategy.partition(":")[0], []).append(strategy)
    found = []
    for name, variants in families.items():
        labels = _apart({variant: end(variant) for variant in variants})
        curves = tuple(
            Curve(
                f"g{number % COLOURS}",
                path(variant, "stored_bytes"),
                path(variant, "written_bytes"),
                Text(WIDTH - _RIGHT + 6, round(labels[variant] + 4, 1), _short(variant)),
            )
            for number, variant in enumerate(variants)
        )
        others = "".join(path(each, "stored_bytes") for family in families.values() for each in family)
        found.append(Panel(name, _described(name, variants, rows), grid, tuple(ticks), others, curves))
    return tuple(found)


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Return the map of *low* .. *high* onto *start* .. *end*."""
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _spread(ns: Sequence[int]) -> list[int]:
    """Return those of *ns* that have room on a logarithmic axis: the last, and each half of the one after it."""
    kept: list[int] = []
    for n in reversed(ns):
        if not kept or 1.9 * n <= kept[0]:
            kept.insert(0, n)
    return kept


def _apart(places: dict[str, float]) -> dict[str, float]:
    """Return *places* moved down as far as two labels need, and all up again if the last one would leave the panel."""
    found: dict[str, float] = {}
    before = -math.inf
    for name, place in sorted(places.items(), key=lambda item: item[1]):
        before = found[name] = max(place, before + _LABEL)
    beyond = max(0.0, before - (HEIGHT - _BOTTOM))
    return {name: place - beyond for name, place in found.items()}


def _short(variant: str) -> str:
    """Return the options of *variant* as far as they fit: the panel has the name already."""
    options = variant.partition(":")[2]
    if not options:
        return "default"
    words = ", ".join(option.partition("=")[2] if "=" in option else option for option in options.split(","))
    words = f"K = {words}" if options.startswith("every=") else words
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


def _described(name: str, variants: Sequence[str], rows: Sequence[TaxRow]) -> str:
    """Return the panel in words, for those who do not see it."""
    last = {row.strategy: row for row in rows if row.strategy in variants}
    told = (
        f"{variant}: {megabytes(row.stored_bytes)} stored and {megabytes(row.written_bytes)} written at N = {row.n}"
        for variant, row in last.items()
    )
    return f"{name}; {'; '.join(told)}"
