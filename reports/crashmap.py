"""Where the faults of each strategy hit, and what became of it there: steps across, phases down.

A place is as bad as the worst run that was hit there. Each state has its own shape as well as its own colour: what
broke sticks out of its row, what was not hit is a thin line, an equal crash state half a block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby

from chaos.plan import CHECKPOINT_WRITE, COUNTED, PHASES, STEP_PHASES, SYSCALLS
from chaos.reports.drawing import Text
from chaos.reports.numbers import place, strategies
from chaos.reports.picture import Mark, Picture, Table, box
from chaos.reports.text import listing, plural, ranges
from chaos.results import EQUAL, Campaign, RunResult
from chaos.verdict import CellVerdict

COLUMNS = 448  # of a map: below two units a column is no mark any more; of more steps, several share one
WIDE = 16.0  # units of a column that has room for an icon
ICON_FROM = 9.0  # units from which an icon has room
ELSEWHERE = 8  # points without a step that are named
_LEFT, _ROW, _WIDTH = 118.0, 18.0, 1000.0
_COMMITS = frozenset({"during_commit", CHECKPOINT_WRITE, *SYSCALLS})
"""Phases inside of a commit: the agent says so, or its writes become durable there."""


class Place(IntEnum):
    """What became of a place; the largest counts where several runs were hit there."""

    MISSED = 0
    EQUAL = 1
    RECOVERED = 2
    EXPECTED = 3
    UNJUDGED = 4
    BROKEN = 5

    @property
    def icon(self) -> str:
        """Its sign, as in the matrix."""
        return "·=✓≈?✗"[self]

    @property
    def word(self) -> str:
        """What it means."""
        return _WORDS[self]


_WORDS = ("not hit", "equal crash state", "recovered", "expected loss", "not judged", "broken")

Phase = tuple[bool, str]  # during recovery, and the phase
Spot = tuple[int, Phase]  # the step or number, and where in it


@dataclass(frozen=True)
class Map:
    """The map of one strategy: its picture, None without any step; its numbers; what it was never hit in.

    *warning* is what has to be known of a test that never crashed there; *elsewhere* are points that have no step.
    """

    strategy: str
    picture: Picture | None
    table: Table
    summary: str
    warning: str
    elsewhere: tuple[str, ...]


def maps(campaign: Campaign, reached: Mapping[str, frozenset[tuple[int, str]]]) -> tuple[Map, ...]:
    """Return the map of each strategy; *reached* are steps and phases of its crash-free runs, as far as known."""
    runs: dict[str, list[RunResult]] = {name: [] for name in strategies(campaign)}
    for run in campaign.runs:
        runs[run.strategy].append(run)
    return tuple(
        _map(f"map-{number}", name, own, reached.get(name, frozenset()))
        for number, (name, own) in enumerate(runs.items(), 1)
        if own
    )


def state(run: RunResult) -> Place:
    """Return what *run* says of the places where it was hit."""
    if run.verdict in (CellVerdict.NOT_EXERCISED, CellVerdict.UNKNOWN, CellVerdict.HARNESS_ERROR):
        return Place.UNJUDGED
    if set(run.broke) - set(run.expected):
        return Place.BROKEN
    if run.broke:
        return Place.EXPECTED
    return Place.EQUAL if run.how == EQUAL else Place.RECOVERED


def _map(anchor: str, strategy: str, runs: Iterable[RunResult], reached: frozenset[tuple[int, str]]) -> Map:
    spots: dict[Spot, Place] = {(step, (False, phase)): Place.MISSED for step, phase in reached}
    counted: dict[Spot, int] = {}
    elsewhere: dict[str, tuple[Place, int]] = {}
    for run in runs:
        said = state(run)
        for landed in run.landed:
            step, phase, recovering = place(landed.at)
            if step is None:
                worst, times = elsewhere.get(landed.at, (Place.MISSED, 0))
                elsewhere[landed.at] = max(worst, said), times + 1
            else:
                spot = (step, (recovering, phase))
                spots[spot] = max(spots.get(spot, Place.MISSED), said)
                counted[spot] = counted.get(spot, 0) + 1
    phases = sorted({phase for _, phase in spots}, key=_order)
    rows = {phase: {step: said for (step, at), said in spots.items() if at == phase} for phase in phases}
    return Map(
        strategy=strategy,
        picture=_picture(anchor, strategy, rows) if rows else None,
        table=_table(strategy, rows),
        summary=_summary(spots, reached),
        warning=_warning(spots, reached),
        elsewhere=tuple(
            f"{worst.icon} {at} × {times}, {worst.word}" for at, (worst, times) in sorted(elsewhere.items())
        ),
    )


def _order(phase: Phase) -> tuple[bool, int, str]:
    """Return what to sort phases by: those of a step, then what is counted by itself, then all of it in recovery."""
    recovering, name = phase
    known = (*PHASES, *COUNTED)
    return recovering, known.index(name) if name in known else len(known), name


def _picture(anchor: str, strategy: str, rows: Mapping[Phase, Mapping[int, Place]]) -> Picture:
    first = min(step for row in rows.values() for step in row)
    first = 0 if first < 2 else first
    steps = max(step for row in rows.values() for step in row) + 1 - first
    shared = math.ceil(steps / COLUMNS)
    columns = math.ceil(steps / shared)
    wide = min(WIDE, (_WIDTH - _LEFT) / columns)
    paths: dict[Place, list[str]] = {each: [] for each in Place}
    texts = []
    for number, (phase, row) in enumerate(rows.items()):
        y = number * _ROW
        texts.append(Text(0, y + 13, _named(phase)))
        for start, length, said in _stretches(row, first, shared):
            x, width = _LEFT + start * wide, length * wide
            paths[said].append(_shape(said, x, y, width if wide < 4 else width - 1))
            if wide >= ICON_FROM and said is not Place.MISSED:
                middle = round(x + min(width, wide) / 2 - 0.5, 1)
                down = y + (15.5 if said is Place.EQUAL else 13)
                texts.append(Text(middle, down, said.icon, "middle", f"icon place-{said.name.lower()}"))
    every = next(n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9) if n / shared * wide >= 28)
    for step in range(math.ceil(first / every) * every, first + steps, every):
        x = _LEFT + (step - first) / shared * wide + wide / 2
        texts.append(Text(round(x, 1), len(rows) * _ROW + 13, str(step), "middle"))
    return Picture(
        anchor=anchor,
        title=f"Crash points of {strategy}: steps across, phases down",
        described="; ".join(f"{_named(phase)}: {_told(row)}" for phase, row in rows.items())
        + (f"; one column stands for {shared} steps, and shows the worst" if shared > 1 else ""),
        width=math.ceil(_LEFT + columns * wide + 8),
        height=len(rows) * _ROW + 18,
        marks=tuple(Mark(f"place-{said.name.lower()}", "".join(found)) for said, found in paths.items() if found),
        texts=tuple(texts),
    )


def _stretches(row: Mapping[int, Place], first: int, shared: int) -> Iterable[tuple[int, int, Place]]:
    """Yield first column, columns and state of each stretch of equal neighbours, *shared* steps in a column."""
    columns: dict[int, Place] = {}
    for step, said in row.items():
        column = (step - first) // shared
        columns[column] = max(columns.get(column, Place.MISSED), said)
    order = sorted(columns)
    for _, group in groupby(enumerate(order), key=lambda item: (item[1] - item[0], columns[item[1]])):
        members = [column for _, column in group]
        yield members[0], len(members), columns[members[0]]


def _shape(said: Place, x: float, y: float, width: float) -> str:
    """Return the path of a stretch of that state in the row that begins at *y*."""
    width = max(width, 1.0)
    match said:
        case Place.MISSED:
            return box(x, y + 8, width, 2)
        case Place.EQUAL:
            return box(x, y + 9, width, 6)
        case Place.EXPECTED:
            return box(x, y + 3, width, 3) + box(x, y + 8, width, 3) + box(x, y + 13, width, 2)
        case Place.BROKEN:
            return box(x, y, width, 18)
        case _:
            return box(x, y + 3, width, 12)


def _named(phase: Phase) -> str:
    recovering, name = phase
    return f"recovery: {name}" if recovering else name


def _told(row: Mapping[int, Place]) -> str:
    """Return at which steps there is what, the worst first."""
    parts = []
    for said in sorted(set(row.values()), reverse=True):
        steps = [step for step, found in row.items() if found is said]
        parts.append(f"{said.word} at {ranges(steps)}")
    return ", ".join(parts)


def _table(strategy: str, rows: Mapping[Phase, Mapping[int, Place]]) -> Table:
    shown = [said for said in reversed(Place) if any(said in row.values() for row in rows.values())]
    return Table(
        name=f"Crash points of {strategy}",
        head=("phase", *(f"{said.icon} {said.word}" for said in shown), "where it broke"),
        rows=tuple(
            (
                _named(phase),
                *(str(list(row.values()).count(said)) for said in shown),
                ranges([step for step, said in row.items() if said is Place.BROKEN]),
            )
            for phase, row in rows.items()
        ),
    )


def _summary(spots: Mapping[Spot, Place], reached: frozenset[tuple[int, str]]) -> str:
    hit = sum(said is not Place.MISSED for said in spots.values())
    known = f"{hit} of {plural(len(spots), 'point')} hit" if reached else f"{plural(hit, 'point')} hit"
    broken = sum(said is Place.BROKEN for said in spots.values())
    equal = sum(said is Place.EQUAL for said in spots.values())
    never = [phase for phase in STEP_PHASES if _at(spots, phase) and not any(_at(spots, phase))]
    parts = [
        known,
        f"never: {listing(never)}" if never else "",
        f"{broken} broken" if broken else "",
        f"{equal} by an equal crash state" if equal else "",
    ]
    return "; ".join(filter(None, parts))


def _at(spots: Mapping[Spot, Place], phase: str) -> Sequence[Place]:
    return [said for (_, (recovering, name)), said in spots.items() if name == phase and not recovering]


def _warning(spots: Mapping[Spot, Place], reached: frozenset[tuple[int, str]]) -> str:
    """Return that nothing crashed inside a commit, if there are commits to crash in."""
    commits = any(phase == "during_commit" for _, phase in reached)
    hit = any(phase in _COMMITS and said for (_, (_, phase)), said in spots.items())
    return "never crashed inside a commit" if commits and not hit else ""
