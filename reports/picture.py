"""The pieces of a chart: places are computed here and by who makes charts, a template only writes them down.

One path for each kind of mark keeps thousands of values small. No kind is told by its colour alone: lines have a dash
and a symbol, bars a filling, and every chart says in words what it draws and has its numbers in a table.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from chaos.reports.drawing import Text

SYMBOLS = 6
DASHES = 4
COLOURS = 8
"""Kinds that can be told apart; together they repeat after 24 lines."""

_STRIPE = 4.0  # units from one stripe of a filling to the next


@dataclass(frozen=True)
class Mark:
    """A path and the name of its look in the style sheet."""

    css: str
    d: str


@dataclass(frozen=True)
class Picture:
    """One SVG: *title* names it, *described* says what can be seen, for those who do not see it."""

    anchor: str
    title: str
    described: str
    width: float
    height: float
    marks: tuple[Mark, ...]
    texts: tuple[Text, ...]


@dataclass(frozen=True)
class Table:
    """The numbers of a chart. The first column names the row."""

    name: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Chart:
    """One figure of the report: what it is, in what units, its *key* of (look, words), its numbers, what to know."""

    name: str
    about: str
    pictures: tuple[Picture, ...]
    key: tuple[tuple[str, str], ...]
    table: Table
    notes: tuple[str, ...] = ()


Scale = Callable[[float], float]


def linear(low: float, high: float, start: float, end: float) -> Scale:
    """Return the map of *low* .. *high* onto *start* .. *end*; what is beyond stays at the edge."""
    span = high - low or 1.0

    def across(value: float) -> float:
        share = min(max((value - low) / span, 0.0), 1.0)
        return start + share * (end - start)

    return across


def logarithmic(low: float, high: float, start: float, end: float) -> Scale:
    """Return the map of *low* .. *high*, both above 0, onto *start* .. *end*, of equal ratios onto equal lengths."""
    along = linear(math.log(low), math.log(high), start, end)
    return lambda value: along(math.log(max(value, low)))


def one_two_five(low: float, high: float) -> tuple[float, ...]:
    """Return the numbers 1, 2, 5, 10, ... times a power of ten, from the last below *low* to the first above *high*."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    steps = [float(f"{digit}e{decade}") for decade in decades for digit in (1, 2, 5)]
    first = max(bisect_right(steps, low) - 1, 0)
    last = next(place for place, step in enumerate(steps) if step >= high)
    return tuple(steps[first : max(last, first + 1) + 1])


def spread(ticks: Sequence[float], most: int) -> tuple[float, ...]:
    """Return at most so many of *ticks*, the first and others at equal distances after it."""
    return tuple(ticks[:: math.ceil(len(ticks) / most)]) if ticks else ()


def ecdf(values: Sequence[float], total: int = 0) -> tuple[tuple[float, float], ...]:
    """Return for each different one of *values* the share of all that are not above it, ascending.

    Args:
        total: how many there are in all, if some have no value: the last share is then below 1.
    """
    known = sorted(values)
    of = max(total, len(known))
    last = {value: number for number, value in enumerate(known, 1)}
    return tuple((value, number / of) for value, number in last.items())


def thinned(points: Iterable[tuple[float, float]], least: float = 1.0) -> list[tuple[float, float]]:
    """Return the first of *points* that are not closer to the one before than *least* to the right, and the last."""
    kept: list[tuple[float, float]] = []
    last: tuple[float, float] | None = None
    for point in points:
        if not kept or point[0] - kept[-1][0] >= least:
            kept.append(point)
        last = point
    return kept if last is None or kept[-1] == last else [*kept, last]


def box(x: float, y: float, width: float, height: float) -> str:
    """Return the path of a rectangle."""
    return f"M{x:.1f} {y:.1f}h{width:.1f}v{height:.1f}h-{width:.1f}z"


def disc(x: float, y: float, radius: float) -> str:
    """Return the path of a circle."""
    r = f"{radius:.1f}"
    return f"M{x - radius:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * radius:.1f} 0a{r} {r} 0 1 0 -{2 * radius:.1f} 0z"


def stripes(x: float, y: float, width: float, height: float) -> str:
    """Return the path of upright stripes in a rectangle."""
    places = (x + _STRIPE * number for number in range(int(width / _STRIPE) + 1))
    return "".join(f"M{place:.1f} {y:.1f}v{height:.1f}" for place in places)


def symbol(kind: int, x: float, y: float, size: float = 3.2) -> str:
    """Return the path of the symbol of that *kind*, so many units from its middle to its edge."""
    s, a, b = size, f"{size:.1f}", f"{2 * size:.1f}"
    match kind % SYMBOLS:
        case 0:
            return disc(x, y, s)
        case 1:
            return box(x - s, y - s, 2 * s, 2 * s)
        case 2:
            return f"M{x:.1f} {y - s:.1f}l{a} {b}h-{b}z"
        case 3:
            return f"M{x:.1f} {y - 1.3 * s:.1f}l{1.3 * s:.1f} {1.3 * s:.1f}l-{1.3 * s:.1f} {1.3 * s:.1f}l-{1.3 * s:.1f} -{1.3 * s:.1f}z"  # noqa: E501
        case 4:
            return f"M{x:.1f} {y + s:.1f}l{a} -{b}h-{b}z"
        case _:
            return box(x - s, y - 0.4 * s, 2 * s, 0.8 * s) + box(x - 0.4 * s, y - s, 0.8 * s, 2 * s)
