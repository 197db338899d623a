"""Where things stand in a report's pictures: scales are computed here, templates only write the numbers down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from chaos.reports.lanes import Lane, Step, Timeline
from chaos.reports.text import listing, mask, ranges

WIDTH = 1000  # of a timeline's coordinate system
LANES = 6  # drawn: the reference and five incarnations; a crash loop's later ones look alike
STEPS = 250  # drawn: below 3.5 units a step is no box any more
HITS = 6  # labelled faults
_LEFT = 118
_LANE, _BOX, _LABEL = 38, 16, 17
_CHARACTER = 6.3  # units of one character of a label, to decide on which side of its line it fits
_NUMBERED = 22.0  # units from which a box has room for its number
_GAP_FROM = 6.0  # units from which boxes are told apart by a gap


@dataclass(frozen=True)
class Text:
    """A text at a place, and the name of its look in the style sheet."""

    x: float
    y: float
    words: str
    anchor: str = "start"
    css: str = ""


@dataclass(frozen=True)
class Line:
    """A fault: a vertical line from its label down to its lane."""

    x: float
    top: float
    bottom: float
    label: Text


@dataclass(frozen=True)
class TimelineDrawing:
    """A timeline ready to be written as SVG: one path for each kind of box keeps hundreds of steps small."""

    width: int
    height: float
    described: str
    names: tuple[Text, ...]
    reference: str
    done: str
    redone: str
    numbers: tuple[Text, ...]
    effects: str
    asks: str
    again: str
    checkpoints: str
    extra: tuple[Text, ...]
    lines: tuple[Line, ...]
    cut: str


def timeline(found: Timeline) -> TimelineDrawing:
    """Return the drawing of *found*: lanes below each other, one column for each step."""
    lanes, steps = found.lanes[:LANES], min(found.steps, STEPS)
    hits = [hit for hit in found.hits if hit.lane < len(lanes) and hit.step < steps][:HITS]
    scale = (WIDTH - _LEFT) / steps
    top = len(hits) * _LABEL + 8

    def across(step: int, done: float) -> float:
        return _LEFT + (step + done) * scale

    def down(lane: int) -> float:
        return top + lane * _LANE + 10.0

    lines = []
    for row, hit in enumerate(hits):
        x = across(hit.step, hit.done)
        lines.append(Line(x, row * _LABEL + 4, down(hit.lane) + _BOX + 4, _label(x, row, hit.label)))
    own = [(number, lane) for number, lane in enumerate(lanes) if lane.label != "reference"]
    return TimelineDrawing(
        width=WIDTH,
        height=top + len(lanes) * _LANE + 4,
        described=_described(found),
        names=tuple(Text(0, down(number) + 12, lane.label) for number, lane in enumerate(lanes)),
        reference=_boxes(((0, step) for step in _of_reference(lanes) if step.number < steps), across, down, scale),
        done=_boxes(
            ((n, s) for n, lane in own for s in lane.steps if not s.redone and s.number < steps), across, down, scale
        ),
        redone=_boxes(
            ((n, s) for n, lane in own for s in lane.steps if s.redone and s.number < steps), across, down, scale
        ),
        numbers=_numbers(lanes, steps, scale, across, down),
        effects="".join(
            f"M{across(effect.step, 0.5) - 3:.1f} {down(n) - 4:.1f}h6v3h-6z"
            for n, lane in enumerate(lanes)
            for effect in lane.effects
            if effect.step < steps and not effect.times and not effect.deduplicated
        ),
        asks=_marks(
            ((n, a.step) for n, lane in enumerate(lanes) for a in lane.asks if not a.again), across, down, steps
        ),
        again=_marks(((n, a.step) for n, lane in enumerate(lanes) for a in lane.asks if a.again), across, down, steps),
        checkpoints="".join(
            f"M{across(step, 1.0) - 2:.1f} {down(n) + _BOX:.1f}h1.6v6h-1.6z"
            for n, lane in enumerate(lanes)
            for step in lane.checkpoints
            if step < steps
        ),
        extra=tuple(
            Text(
                round(across(effect.step, 0.5), 1),
                down(n) - 1,
                f"×{effect.times}" if effect.times > 1 else "new",
                "middle",
            )
            for n, lane in enumerate(lanes)
            for effect in lane.effects
            if effect.step < steps and effect.times
        ),
        lines=tuple(lines),
        cut=_cut(found, steps, len(lanes), len(hits)),
    )


def _of_reference(lanes: Sequence[Lane]) -> tuple[Step, ...]:
    return lanes[0].steps if lanes and lanes[0].label == "reference" else ()


def _boxes(
    steps: Iterable[tuple[int, Step]],
    across: Callable[[int, float], float],
    down: Callable[[int], float],
    scale: float,
) -> str:
    """Return one path with a box for each step, as wide as the part of it that ran."""
    gap = 2.0 if scale >= _GAP_FROM else 0.0
    parts = []
    for lane, step in steps:
        width = max(scale * step.done - gap, 1.0)
        parts.append(f"M{across(step.number, 0):.1f} {down(lane):.1f}h{width:.1f}v{_BOX}h-{width:.1f}z")
    return "".join(parts)


def _marks(
    places: Iterable[tuple[int, int]],
    across: Callable[[int, float], float],
    down: Callable[[int], float],
    steps: int,
) -> str:
    """Return one path with a small mark below the middle of each step of *places*, which are lanes and steps."""
    return "".join(
        f"M{across(step, 0.5) - 2:.1f} {down(lane) + _BOX + 2:.1f}h4v3h-4z" for lane, step in places if step < steps
    )


def _numbers(
    lanes: Sequence[Lane],
    steps: int,
    scale: float,
    across: Callable[[int, float], float],
    down: Callable[[int], float],
) -> tuple[Text, ...]:
    """Return the numbers in the boxes: all that have room, else every fifth, tenth, ... of the first lane."""
    every = next((n for n in (1, 2, 5, 10, 20, 50) if scale * n >= _NUMBERED), 100)
    found = []
    for number, lane in enumerate(lanes):
        for step in lane.steps:
            if step.number >= steps or step.number % every or (number and every > 1):
                continue
            x = across(step.number, 0.5 if every == 1 else 0.0) + (0 if every == 1 else 2)
            found.append(Text(round(x, 1), down(number) + 12, str(step.number), "middle" if every == 1 else "start"))
    return tuple(found)


def _label(x: float, row: int, words: str) -> Text:
    """Return a fault's label on that side of its line where it fits, else where there is more room."""
    words, y = mask(words), row * _LABEL + 13.0
    left, right = x - 7, WIDTH - x - 7
    if len(words) * _CHARACTER <= right or right >= left:
        return Text(round(x + 7, 1), y, _fitted(words, right))
    return Text(round(x - 7, 1), y, _fitted(words, left), "end")


def _fitted(words: str, room: float) -> str:
    """Return *words* cut to *room*; the table of runs has them in full."""
    most = int(room / _CHARACTER)
    return words if len(words) <= most else f"{words[: most - 1]}…"


def _described(found: Timeline) -> str:
    """Return the picture in words, for those who do not see it."""
    parts = [f"{lane.label}: {_ranges([step.number for step in lane.steps])}" for lane in found.lanes[:LANES]]
    parts += [f"fault: {hit.label}" for hit in found.hits[:HITS]]
    parts.append(f"redone: {_ranges(found.redone)}" if found.redone else "no step redone")
    return "; ".join(parts)


def _ranges(numbers: Sequence[int]) -> str:
    """Return "steps 0–4, 7"."""
    return f"{'step' if len(numbers) == 1 else 'steps'} {ranges(numbers)}" if numbers else "no step"


def _cut(found: Timeline, steps: int, lanes: int, hits: int) -> str:
    """Return what the drawing leaves out."""
    parts = [
        f"steps from {steps}" if found.steps > steps else "",
        f"incarnations after the {lanes - 1}th" if len(found.lanes) > lanes else "",
        f"{len(found.hits) - hits} more faults" if len(found.hits) > hits else "",
    ]
    left_out = [part for part in parts if part]
    return f"not drawn: {listing(left_out)}" if left_out else ""
