"""What a link that is made bad does to its connections, told from what the taps at its two ends saw. Pure.

A bout is one time that a link is bad. It has hit a connection when the taps saw what the toxic guarantees, and nothing
but a proxy does: bytes that were held back for as long, bytes that went in and never came out, an end that neither side
made, an end that came late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

SLACK_SECONDS = 0.002  # clocks of three processes' loops, each to a millisecond

HOLDING = ("latency", "bandwidth", "slicer")
KILLED = "killed"
"""A bout without a toxic: who stands behind the link is dead."""


class Hit(NamedTuple):
    """What was seen of one connection: *how*, the bytes that it was about, the seconds that they (or the end) took."""

    how: str
    bytes: int = 0
    seconds: float = 0.0


@dataclass
class Bout:
    """One time that a link is bad: *kind* is the toxic's or "down" or "killed"; attributes in Toxiproxy's units."""

    number: int
    kind: str
    stream: str
    attributes: Mapping[str, int]
    since: float
    hits: dict[int, Hit] = field(default_factory=dict)

    def due(self, size: int) -> float:
        """Return the seconds for which the last of *size* bytes are held back at least."""
        given = self.attributes
        if self.kind == "latency":
            return max(0, given["latency"] - given["jitter"]) / 1000
        if self.kind == "bandwidth":
            return size / (given["rate"] * 1000)
        if self.kind == "slicer":
            pieces = ceil(size / (given["average_size"] + given["size_variation"]))
            return (pieces - 1) * given["delay"] / 1_000_000
        return 0.0


class _Mark(NamedTuple):
    """Up to *position*, *size* bytes came in at *when*."""

    position: int
    size: int
    when: float


class Passage:
    """One connection through a link, seen at both taps."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.entered = {"upstream": 0, "downstream": 0}
        self.left = {"upstream": 0, "downstream": 0}
        self.ended: dict[str, float] = {}  # "agent", "world", and the proxy's end "to agent" or "to world": when
        self._marks: dict[str, deque[_Mark]] = {"upstream": deque(), "downstream": deque()}

    def enters(self, stream: str, size: int, now: float) -> None:
        """*size* bytes went into the proxy."""
        self.entered[stream] += size
        self._marks[stream].append(_Mark(self.entered[stream], size, now))

    def leaves(self, stream: str, size: int, now: float, bout: Bout) -> Hit | None:
        """*size* bytes came out: return what that shows of *bout*. Call `left_behind` once for all bouts afterwards."""
        if bout.kind not in HOLDING or bout.stream != stream:
            return None
        for mark in self._marks[stream]:
            if mark.position > self.left[stream] + size:
                break
            held, due = now - mark.when, bout.due(mark.size)
            if mark.when >= bout.since and due > 0 and held >= max(due - SLACK_SECONDS, due / 2):
                return Hit("held back", mark.size, held)
        return None

    def left_behind(self, stream: str, size: int) -> None:
        """Count *size* bytes that came out."""
        self.left[stream] += size
        marks = self._marks[stream]
        while marks and marks[0].position <= self.left[stream]:
            marks.popleft()

    def ends(self, who: str, how: str, now: float, bout: Bout) -> Hit | None:
        """*who* ended the connection, and not for the first time perhaps: return what that shows of *bout*."""
        if bout.kind == KILLED:
            return Hit(f"{how} by the dead") if who == "world" and "agent" not in self.ended else None
        if bout.kind in HOLDING:
            return None
        missing = self.entered[bout.stream] - self.left[bout.stream]
        if who in ("agent", "world"):
            return Hit("swallowed", missing) if bout.kind == "timeout" and missing else None
        others = {"agent", "world"} & self.ended.keys()
        if bout.kind == "slow_close":
            return self._closed_late(who, now, bout)
        if others:
            return None  # it was ended already: the proxy only passed that on
        if how == "refused":
            return Hit("refused")
        return Hit("reset" if how == "reset" else "cut", missing)

    def _closed_late(self, who: str, now: float, bout: Bout) -> Hit | None:
        """Tell how long after the first end of all this one came: a proxy that sees one end ends the other side too."""
        towards = "to agent" if bout.stream == "downstream" else "to world"
        late, due = now - min(self.ended.values(), default=now), bout.attributes["delay"] / 1000
        if who != towards or due <= 0 or late < max(due - SLACK_SECONDS, due / 2):
            return None
        return Hit("closed late", self.left[bout.stream], late)
