"""The charts of what each strategy costs: recovery time as cumulative curves, and rows of dots or bars."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.reports.drawing import Text
from chaos.reports.numbers import Costs
from chaos.reports.picture import (
    COLOURS,
    DASHES,
    Mark,
    Picture,
    box,
    disc,
    ecdf,
    linear,
    logarithmic,
    one_two_five,
    spread,
    stripes,
    symbol,
    thinned,
)
from chaos.reports.text import number, seconds

WIDTH = 380  # of every picture's coordinate system: one fills a phone, three stand beside each other on a page
LINES = 6  # that can be told apart in one picture; there are more pictures for more
_TOP, _BOTTOM, _LEFT, _NAMES = 10.0, 24.0, 36.0, 178.0
_HEIGHT = 180.0
_LABEL = 14.0  # units from one name to the next
_CHARACTERS, _WHOLE = 20, 32  # of a name beside curves, and above a row
_MARKED = (0.25, 0.5, 0.75, 1.0)  # shares at which a curve has its symbol
_LEAST_SECONDS = 0.001  # what the clock of a journal can tell apart, on a logarithmic axis
_ROW, _BAR = 32.0, 11.0  # of rows of dots or bars: the name is above, so that long ones have room
_RIGHT = 8.0


@dataclass(frozen=True)
class Bar:
    """A row: its name, what is said at its right end, and the lengths of its parts by look."""

    name: str
    said: str
    parts: tuple[tuple[str, float], ...]


def recovery(costs: Sequence[Costs]) -> tuple[Picture, ...]:
    """Return the cumulative curves of the recovery times of all that crashed, on one scale, the fastest first."""
    timed = sorted((each for each in costs if each.rto), key=_half)
    if not timed:
        return ()
    known = [max(value, _LEAST_SECONDS) for each in timed for value in each.rto]
    ticks = one_two_five(min(known), max(known))
    parts = math.ceil(len(timed) / LINES)
    each = math.ceil(len(timed) / parts)
    return tuple(_recovery(part, timed[part * each : (part + 1) * each], ticks) for part in range(parts))


def _recovery(part: int, costs: Sequence[Costs], ticks: Sequence[float]) -> Picture:
    right, bottom = WIDTH - _NAMES, _HEIGHT - _BOTTOM
    across, down = logarithmic(ticks[0], ticks[-1], _LEFT, right), linear(0, 1, bottom, _TOP)
    grid = "".join(f"M{_LEFT} {down(share):.1f}H{right}" for share in (0, 0.5, 1))
    texts = [Text(_LEFT - 5, round(down(share) + 4, 1), f"{share:.0%}", "end") for share in (0, 0.5, 1)]
    texts += [Text(round(across(tick), 1), _HEIGHT - 6, seconds(tick), "middle") for tick in spread(ticks, 4)]
    marks = [Mark("gridline", grid)]
    for place, each in enumerate(costs):
        colour, dash = f"g{place % COLOURS}", f"dash{place % DASHES}"
        curve = ecdf(each.rto, len(each.rto) + each.away)
        path = _steps([(across(value), down(share)) for value, share in curve], bottom, right)
        marked = [next(point for point in curve if point[1] >= share * curve[-1][1]) for share in _MARKED]
        y = _TOP + place * _LABEL + 4
        marks.append(Mark(f"curve {colour} {dash}", f"{path}M{right + 6} {y:.1f}h20"))
        symbols = [symbol(place, across(value), down(share)) for value, share in marked]
        marks.append(Mark(f"dot {colour}", "".join([*symbols, symbol(place, right + 16, y)])))
        texts.append(Text(right + 30, round(y + 4, 1), shortened(each.strategy, _CHARACTERS), css=f"label {colour}"))
    return Picture(
        anchor=f"rto-{part + 1}",
        title="Share of crashes after which the agent was back within so many seconds",
        described="; ".join(map(_spoken, costs)),
        width=WIDTH,
        height=_HEIGHT,
        marks=tuple(marks),
        texts=tuple(texts),
    )


def shortened(strategy: str, characters: int) -> str:
    """Return the label *strategy* in so many *characters*; its variants are told apart by their options' values.

    First the names of the options go, then the end of the strategy's own name, then the end of all.
    """
    if len(strategy) <= characters:
        return strategy
    name, colon, options = strategy.partition(":")
    values = ",".join(option.partition("=")[2] or option for option in options.split(","))
    room = max(characters - len(values) - 2, 3)
    name = name if len(name) <= room + 1 or not colon else f"{name[:room]}…"
    short = f"{name}{colon}{values}"
    return short if len(short) <= characters else f"{short[: characters - 1]}…"


def _half(each: Costs) -> float:
    return each.rto[(len(each.rto) - 1) // 2]


def _steps(points: Sequence[tuple[float, float]], bottom: float, right: float) -> str:
    """Return the path of a cumulative curve: level up to each point, then up."""
    path = "".join(f"H{x:.1f}V{y:.1f}" for x, y in thinned(points))
    return f"M{_LEFT} {bottom:.1f}{path}H{right}"


def _spoken(each: Costs) -> str:
    away = f", {each.away} never" if each.away else ""
    within = f"half of {len(each.rto)} within {seconds(_half(each))}, all within {seconds(each.rto[-1])}"
    return f"{each.strategy}: {within}{away}"


def lost_steps(costs: Sequence[Costs]) -> Picture:
    """Return a strip for each strategy: a dot at each number of steps lost, its area the share of runs."""
    most = max((each.rpo[-1] for each in costs), default=0)
    inner = linear(0, 1, _LEFT / 2, WIDTH - _LEFT / 2)
    span = logarithmic(1, most + 2, 0, 1)

    def across(steps: float) -> float:
        return inner(span(steps + 1))

    height = len(costs) * _ROW + _BOTTOM
    axis = "".join(f"M{across(0):.1f} {(row + 0.72) * _ROW:.1f}H{across(most + 1):.1f}" for row in range(len(costs)))
    dots, medians, texts = [], [], []
    for row, each in enumerate(costs):
        y = (row + 0.72) * _ROW
        places: Counter[float] = Counter()
        for steps, times in Counter(each.rpo).items():
            places[round(across(steps) / 4) * 4 if steps > 8 else across(steps)] += times
        dots += [disc(x, y, 1.5 + 4.5 * (times / each.runs) ** 0.5) for x, times in places.items()]
        medians.append(f"M{across(each.rpo[len(each.rpo) // 2]):.1f} {y - 9:.1f}v18")
        texts.append(Text(0, round(row * _ROW + 11, 1), shortened(each.strategy, _WHOLE), css="row"))
        said = f"none lost in {each.rpo.count(0)} of {each.runs}, worst {each.rpo[-1]}"
        texts.append(Text(WIDTH, round(row * _ROW + 11, 1), said, "end"))
    for tick in (0.0, *one_two_five(1, max(most, 1))):
        if tick <= most:
            texts.append(Text(round(across(tick), 1), height - 6, number(tick), "middle"))
    return Picture(
        anchor="rpo",
        title="Steps lost by each run",
        described="; ".join(
            f"{each.strategy}: none in {each.rpo.count(0)} of {each.runs} runs, worst {each.rpo[-1]}" for each in costs
        ),
        width=WIDTH,
        height=height,
        marks=(Mark("gridline", axis), Mark("spot", "".join(dots)), Mark("median", "".join(medians))),
        texts=tuple(texts),
    )


def bars(anchor: str, title: str, rows: Sequence[Bar]) -> Picture:
    """Return a stacked bar for each of *rows*, the longest across the picture. Looks: full, striped, hollow."""
    longest = max((sum(length for _, length in row.parts) for row in rows), default=0) or 1.0
    paths: dict[str, list[str]] = {}
    texts = []
    for place, row in enumerate(rows):
        x, y = 0.5, place * _ROW + 16
        for look, length in row.parts:
            width = max(length / longest * (WIDTH - 1), 1.0 if length else 0.0)
            if width:
                paths.setdefault(look, []).append(box(x, y, width, _BAR))
                if look == "striped":
                    paths.setdefault("stripes", []).append(stripes(x, y, width, _BAR))
            x += width
        texts.append(Text(0, round(y - 5, 1), shortened(row.name, _WHOLE), css="row"))
        texts.append(Text(WIDTH, round(y - 5, 1), row.said, "end"))
    return Picture(
        anchor=anchor,
        title=title,
        described="; ".join(f"{row.name}: {row.said}" for row in rows),
        width=WIDTH,
        height=len(rows) * _ROW,
        marks=tuple(Mark(look, "".join(found)) for look, found in paths.items()),
        texts=tuple(texts),
    )
