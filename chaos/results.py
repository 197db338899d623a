"""What a campaign leaves on disk; reports are a pure function of these three files.

* `results.jsonl`: one `RunResult` per run, appended as the run ends, so that a killed job keeps what it has
* `cells.jsonl`: one `CellResult` per cell, appended when its runs are done or when it is skipped
* `campaign.json`: one `CampaignInfo`: seed, versions, machine

The format is version 1. Readers ignore fields that they do not know; a field is never given a new meaning.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from chaos.errors import HarnessError
from chaos.verdict import CellVerdict, Verdict

_Line = TypeVar("_Line")

VERSION = 1
RUNS = "results.jsonl"
CELLS = "cells.jsonl"
CAMPAIGN = "campaign.json"
JOURNALS = "runs"


class Landed(msgspec.Struct, frozen=True):
    """A planned fault that hit: *evidence* is what proves it (wait status, the kernel's counter, ...)."""

    fault: str
    at: str
    how: str
    evidence: dict[str, str | int | float]


class RecoveryTime(msgspec.Struct, frozen=True):
    """Seconds from the fault to the step that it interrupted: the parts of RTO."""

    detect: float = 0.0
    restart: float = 0.0
    load: float = 0.0
    replay: float = 0.0

    @property
    def total(self) -> float:
        return self.detect + self.restart + self.load + self.replay


class Tokens(msgspec.Struct, frozen=True):
    """Tokens paid for: *useful* once, *asked_again* for an answer already given, *retried* in refused requests."""

    useful: int = 0
    asked_again: int = 0
    retried: int = 0


class Storage(msgspec.Struct, frozen=True):
    """Bytes in the durable zone at the end, and bytes written on the way."""

    stored: int = 0
    written: int = 0


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one cell. *plan* and *landed* have equal length only if every fault landed."""

    v: int = VERSION
    campaign: str
    scenario: str
    strategy: str
    fault: str
    survival: str = ""  # the most that its faults take away: "process", "container", "node", "store" or "none"
    run: int
    seed: int
    backend: str = ""  # the kind of sandbox that it ran in
    plan: str
    planned: int
    landed: tuple[Landed, ...]
    missed: tuple[str, ...] = ()  # what became of each planned fault that did not land
    checks: dict[str, Verdict]
    verdict: CellVerdict
    broke: tuple[str, ...] = ()  # checks that failed
    expected: tuple[str, ...] = ()  # checks that the scenario allows to fail here
    because: str = ""
    claims: dict[str, str] = {}  # what the strategy says it restores -> "kept" | "refuted" | "not judged"
    attempts: int = 1
    steps: int = 0
    rpo_steps: int = 0
    rto_seconds: RecoveryTime | None = None
    tokens: Tokens = Tokens()
    storage: Storage = Storage()
    # what the strategy's half outside the sandbox said last, by kind ("turns", "restore", ...): its own words
    outside: dict[str, dict[str, str | int | float | bool]] = {}
    seconds: float = 0.0
    error: str = ""  # of the harness
    replay: str = ""
    journal: str = ""  # path, relative to the results folder
    reference: str = ""  # the reference run's journal, likewise


class CellResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs of one cell amount to against the scenario's expectations, or why it was skipped."""

    v: int = VERSION
    campaign: str
    scenario: str
    strategy: str
    fault: str
    order: int = 0  # place of the cell in the campaign: reports are in this order, whichever worker was faster
    verdict: CellVerdict
    passed: bool  # as the scenario wants it: recovered, or broke exactly what it expects
    expected: bool = False  # passed, and something broke
    why: str = ""  # one sentence
    findings: dict[str, str] = {}  # what broke in the worst run: check -> finding
    runs: int = 0
    planned: int = 0
    landed: int = 0
    skipped: str = ""  # the reason; the other fields then mean nothing
    replay: str = ""  # of the worst run


class CampaignInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How the campaign was made."""

    v: int = VERSION
    campaign: str
    seed: int
    began: str  # ISO 8601, UTC
    command: str
    versions: dict[str, str]  # pytest-chaos, Python, LangGraph, Faker, kernel, ...
    machine: dict[str, str]  # capability -> "yes" or what is missing
    cells: int = 0  # how many were to be run; 0 where that was not known


class Campaign(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report needs, read from a results folder."""

    info: CampaignInfo
    runs: tuple[RunResult, ...]
    cells: tuple[CellResult, ...]

    @property
    def planned(self) -> int:
        """How many cells were to be run, as far as it is known."""
        judged = {(cell.scenario, cell.strategy, cell.fault) for cell in self.cells}
        begun = {(run.scenario, run.strategy, run.fault) for run in self.runs}
        return max(self.info.cells, len(judged | begun))

    @property
    def unjudged(self) -> int:
        """How many cells have no result: the campaign was interrupted, or ended at the first failure."""
        return self.planned - len(self.cells)


def append(folder: Path, result: RunResult | CellResult) -> None:
    """Append *result* to its file in *folder* as one write, so that parallel workers cannot mix lines."""
    data = msgspec.json.encode(result) + b"\n"
    name = RUNS if isinstance(result, RunResult) else CELLS
    file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        os.write(file, data)
    finally:
        os.close(file)


def write_info(folder: Path, info: CampaignInfo) -> None:
    """Begin the campaign of *info* in *folder*: earlier results and journals there are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / CAMPAIGN).exists():  # else a folder of that name is somebody else's
        shutil.rmtree(folder / JOURNALS, ignore_errors=True)
    for name in (RUNS, CELLS):
        (folder / name).unlink(missing_ok=True)
    fresh = folder / f".{CAMPAIGN}.new"
    fresh.write_bytes(msgspec.json.format(msgspec.json.encode(info)) + b"\n")
    fresh.replace(folder / CAMPAIGN)  # whole or not at all: an interrupt may come at any time


def read(folder: Path) -> Campaign:
    """Return the campaign in *folder*, finished or not, in the order of its cells; HarnessError if there is none."""
    try:
        info = msgspec.json.decode((folder / CAMPAIGN).read_bytes(), type=CampaignInfo)
    except FileNotFoundError:
        raise HarnessError(f"{folder}: no campaign here ({CAMPAIGN} is missing); run `pytest --chaos` first") from None
    cells = sorted(_lines(folder / CELLS, CellResult), key=lambda cell: cell.order)
    places = {(cell.scenario, cell.strategy, cell.fault): place for place, cell in enumerate(cells)}
    runs = sorted(
        _lines(folder / RUNS, RunResult),  # a cell that was interrupted has runs and no result: it comes last
        key=lambda run: (places.get((run.scenario, run.strategy, run.fault), len(places)), run.run),
    )
    return Campaign(info=info, runs=tuple(runs), cells=tuple(cells))


def _lines(path: Path, kind: type[_Line]) -> Iterator[_Line]:
    """Yield the objects of *path*; a torn last line (the job was killed) is left out."""
    if path.exists():
        for line in path.read_bytes().split(b"\n")[:-1]:
            yield msgspec.json.decode(line, type=kind)
