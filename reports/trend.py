"""How each strategy fared from campaign to campaign: small lines over the entries of a history file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chaos import history
from chaos.history import Entry, StrategyFigures
from chaos.reports.drawing import Text
from chaos.reports.picture import Mark, Picture, Table, linear, symbol
from chaos.reports.text import number, plural, seconds, size
from chaos.results import Campaign

SHOWN = 200  # campaigns, the latest: a point of more is no point any more
LISTED = 12  # in the table of a strategy: the file has all of them
TOLD = 3  # commits named in a line: the latest at which it got worse

WIDTH = 380
_LEFT, _RIGHT, _LINE, _HEAD = 6.0, 74.0, 70.0, 30.0
_COMMIT = 8  # characters of a commit that tell it from others
_NEAR = 72.0  # units that two commits' names need beside each other


@dataclass(frozen=True)
class Measure:
    """One line of a strategy: what it is, how its values read, and how much of it is worse.

    *slack* is the share by which it has to grow from one campaign to the next to be told, for less is the machine's
    noise; None where it is worse to have less, and any less is told.
    """

    name: str
    of: Callable[[StrategyFigures], float | None]
    said: Callable[[float | None], str]
    slack: float | None


def _share(figures: StrategyFigures) -> float | None:
    return figures.recovered / figures.runs if figures.runs else None


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{int(100 * value)} %"  # rounded down, so that 100 means all


MEASURES = (
    Measure("runs that recovered", _share, _percent, slack=None),
    Measure("recovery time, p95", lambda figures: figures.rto_p95, seconds, slack=0.5),
    Measure("bytes stored per step", lambda figures: figures.bytes_per_step, size, slack=0.2),
)


@dataclass(frozen=True)
class Small:
    """The picture of one strategy, its last campaigns as numbers, and what got worse in the last one."""

    strategy: str
    picture: Picture
    table: Table
    worse: str


@dataclass(frozen=True)
class Trend:
    """A picture for each strategy of the last campaign, and what the whole of them is."""

    sentence: str
    smalls: tuple[Small, ...]


def trend(entries: Sequence[Entry]) -> Trend | None:
    """Return the trend over *entries*, oldest first; None if there are fewer than two."""
    shown = entries[-SHOWN:]
    if len(shown) < 2:
        return None
    names = [each.strategy for each in shown[-1].strategies]
    smalls = (_small(f"trend-{number}", name, shown) for number, name in enumerate(names, 1))
    first, last = shown[0], shown[-1]
    kept = f"{first.as_promised} of {plural(first.cells, 'cell')} then, {last.as_promised} of {last.cells} now"
    sentence = f"{plural(len(shown), 'campaign')} from {_named(first)} to {_named(last)}; as promised: {kept}"
    return Trend(sentence, tuple(filter(None, smalls)))


def until(campaign: Campaign, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the *entries* up to that of *campaign*, which may not be in its history yet."""
    earlier = tuple(each for each in entries if each.campaign != campaign.info.campaign)
    own = next((each for each in entries if each.campaign == campaign.info.campaign), None)
    earlier = tuple(each for each in earlier if each.began <= campaign.info.began)
    return (*earlier, own or history.entry(campaign))


def worsened(values: Sequence[float | None], measure: Measure) -> tuple[int, ...]:
    """Return the places at which *values* got worse than the last known one before."""
    found, before = [], None
    for at, value in enumerate(values):
        if value is None:
            continue
        if before is not None and (value < before if measure.slack is None else value > before * (1 + measure.slack)):
            found.append(at)
        before = value
    return tuple(found)


def _small(anchor: str, strategy: str, entries: Sequence[Entry]) -> Small | None:
    last = entries[-1].of(strategy)
    same = [(entry.of(strategy), last) for entry in entries]
    figures = [each if each and now and each.shape == now.shape else None for each, now in same]
    if sum(each is not None for each in figures) < 2:
        return None
    marks: list[Mark] = []
    texts: list[Text] = []
    told, worse = [], []
    for row, measure in enumerate(MEASURES):
        values = [measure.of(each) if each else None for each in figures]
        down = worsened(values, measure)
        known = [value for value in values if value is not None]
        marks += _marks(values, down, row * _LINE + _HEAD)
        texts += _texts(measure, values, down, entries, row * _LINE)
        if known:
            told.append(f"{measure.name}: {measure.said(known[0])} at first, {measure.said(known[-1])} at last")
        if down and down[-1] == len(values) - 1:
            worse.append(f"{measure.name} {measure.said(known[-2])} → {measure.said(known[-1])}")
    return Small(
        strategy=strategy,
        picture=Picture(
            anchor=anchor,
            title=f"{strategy} over {plural(len(entries), 'campaign')}",
            described="; ".join(told),
            width=WIDTH,
            height=len(MEASURES) * _LINE,
            marks=tuple(mark for mark in marks if mark.d),
            texts=tuple(texts),
        ),
        table=_table(strategy, entries, figures),
        worse="; ".join(worse),
    )


def _marks(values: Sequence[float | None], worse: Sequence[int], top: float) -> list[Mark]:
    """Return the line of *values*, broken where one is not known, and its symbols."""
    across, down = _scales(values, top)
    path, pen = [], "M"
    for at, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        path.append(f"{pen}{across(at):.1f} {down(value):.1f}")
        pen = "L"
    known = [at for at, value in enumerate(values) if value is not None]
    ends = "".join(symbol(0, across(at), down(values[at] or 0.0), 2.6) for at in known[-1:])
    bad = "".join(symbol(4, across(at), down(values[at] or 0.0), 3.4) for at in worse)
    base = f"M{_LEFT} {top + _LINE - _HEAD - 8:.1f}H{WIDTH - _RIGHT}"
    return [Mark("gridline", base), Mark("curve g0", "".join(path)), Mark("dot g0", ends), Mark("worse", bad)]


def _scales(values: Sequence[float | None], top: float) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """Return the scales of *values*; each line starts at 0, so that its height is not the noise of its last digit."""
    known = [value for value in values if value is not None]
    across = linear(0, max(len(values) - 1, 1), _LEFT, WIDTH - _RIGHT)
    return across, linear(0, max(known, default=0.0) or 1.0, top + _LINE - _HEAD - 8, top + 4)


def _texts(
    measure: Measure, values: Sequence[float | None], worse: Sequence[int], entries: Sequence[Entry], top: float
) -> list[Text]:
    across, down = _scales(values, top + _HEAD)
    last = next((value for value in reversed(values) if value is not None), None)
    height = down(last) + 4 if last is not None else top + _HEAD + 20
    texts = [
        Text(0, top + 12, measure.name, css="row"),
        Text(WIDTH - _RIGHT + 8, round(height, 1), measure.said(last), css="label g0"),
    ]
    near = float(WIDTH)
    for at in worse[::-1][:TOLD]:
        x = min(max(across(at), _LEFT + 24), WIDTH - _RIGHT - 24)
        if x + _NEAR <= near + 1e-9 and entries[at].commit:
            texts.append(Text(round(x, 1), top + 25, f"▼ {entries[at].commit[:_COMMIT]}", "middle", "worse"))
            near = x
    return texts


def _table(strategy: str, entries: Sequence[Entry], figures: Sequence[StrategyFigures | None]) -> Table:
    rows = [
        (
            entry.commit[:_COMMIT] or "–",
            entry.began,
            str(entry.seed),
            f"{known.recovered}/{known.runs}",
            number(known.rpo_p95),
            seconds(known.rto_p95),
            size(known.bytes_per_step),
        )
        for entry, known in zip(entries, figures, strict=True)
        if known
    ]
    left_out = len(rows) - LISTED
    return Table(
        name=f"{strategy} from campaign to campaign, the latest first",
        head=("commit", "began", "seed", "recovered", "RPO p95", "RTO p95", "bytes per step"),
        rows=tuple(rows[::-1][:LISTED]),
        note=f"{plural(left_out, 'earlier campaign')} are in the history file." if left_out > 0 else "",
    )


def _named(entry: Entry) -> str:
    """Return the commit of *entry* and when it was made, to the minute."""
    return " of ".join(filter(None, (entry.commit[:_COMMIT], entry.began[:16].replace("T", " "))))
