"""What a campaign leaves on disk; reports are a pure function of these files.

* `results.jsonl`: one `RunResult` per run, appended as the run ends, so that a killed job keeps what it has
* `cells.jsonl`: one `CellResult` per cell, appended when its runs are done or when it is skipped
* `campaign.json`: one `CampaignInfo`: seed, versions, machine
* `planned.json`: one `Planned`: all cells of the campaign, those that other machines run too

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
from chaos.shards import Key, Planned, PlannedCell, Shard
from chaos.verdict import CellVerdict, Verdict

_Line = TypeVar("_Line")

VERSION = 1
RUNS = "results.jsonl"
CELLS = "cells.jsonl"
CAMPAIGN = "campaign.json"
PLANNED = "planned.json"
JOURNALS = "runs"
SHARDS = "shards"  # what each machine left, in a merged folder

KILLED, DERIVED, EQUAL = "killed", "derived", "equal"
"""How a run was made: broken for real in a run from its start; resumed from a captured crash state; as one that was
resumed from an equal crash state."""


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
    how: str = KILLED  # or DERIVED, EQUAL
    like: str = ""  # the plan that was run from an equal crash state, and stood for this one
    plan: str
    planned: int
    landed: tuple[Landed, ...]
    missed: tuple[str, ...] = ()  # what became of each planned fault that did not land
    # the last faults of *plan*, if the agent came to no such point and its seeker looks for just that; not in *planned*
    unreached: tuple[str, ...] = ()
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
    volatile: tuple[str, ...] = ()  # paths of the state that may differ between equal runs
    seconds: float = 0.0
    error: str = ""  # of the harness
    replay: str = ""
    journal: str = ""  # path, relative to the results folder
    reference: str = ""  # the reference run's journal, likewise

    @property
    def key(self) -> Key:
        return self.scenario, self.strategy, self.fault


class Expects(msgspec.Struct, frozen=True):
    """An expected failure of a cell: what must break in some run of it, what may break, and why."""

    breaks: tuple[str, ...]
    may_break: tuple[str, ...]
    because: str


class Minimal(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest case that fails as a run of the cell did: with the same verdict, and the same *check* broken.

    *case* has the labels of the scenario in *bundle*; without a bundle, those of the cell.
    """

    verdict: CellVerdict
    check: str
    finding: str
    was: str  # the case of the cell that it was shrunk from
    case: str
    target: dict[str, str | int | float | bool] = {}  # fields of the target that were made smaller
    runs: int = 0  # made for it, crash-free ones too
    proven: bool = False  # no single simplification of it fails in the same way: each of them was tried
    why: str = ""  # it is not proven, or has no bundle
    replay: str = ""
    bundle: str = ""  # folder, relative to the results

    @property
    def sentence(self) -> str:
        """What it is and how it was found."""
        smaller = ", ".join(f"{name}: {value}" for name, value in self.target.items())
        place = f"{self.case} with {smaller}" if smaller else self.case
        made = f"shrunk from {self.was} in {self.runs} runs" if (place, self.runs) != (self.was, 0) else "not shrunk"
        proof = "no single simplification of it fails in the same way" if self.proven else ""
        return f"{place} breaks {self.check} ({self.verdict}); {'; '.join(filter(None, (made, proof, self.why)))}"


class CellResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs of one cell, or of one part of them, amount to against the scenario's expectations.

    A part is judged by its own runs: what must break in some run of the cell is asked when all parts are there.
    """

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
    real_because: str = ""  # why runs are made from their start, and not derived
    skipped: str = ""  # the reason; the other fields then mean nothing
    replay: str = ""  # of the worst run
    known: dict[str, tuple[str, ...]] = {}  # accepted by the baseline, which is all that broke: check -> places
    minimal: tuple[Minimal, ...] = ()  # of each different failure that the scenario does not expect, the first few
    part: int = 1  # which of the *parts* that the cell was divided into
    parts: int = 1
    plans: str = ""  # of all parts: how many, and their digest; parts that do not agree are of different wholes
    expects: tuple[Expects, ...] = ()  # of a divided cell
    missing: tuple[int, ...] = ()  # parts without a result, in what `read` returns: the cell is not judged yet

    @property
    def key(self) -> Key:
        return self.scenario, self.strategy, self.fault


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
    host: str = ""  # the machine's name
    shard: str = ""  # which group of `--splits` it is: "2 of 4"
    shards: tuple[Shard, ...] = ()  # what it was merged from
    notes: tuple[str, ...] = ()  # what that showed: what is missing, was there twice, differs
    price: float = 0.0  # of a million tokens, in USD; 0: reports say nothing of money
    history: str = ""  # the file that a line was added to; where there is none, reports look among the results


class Campaign(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report needs, read from a results folder."""

    info: CampaignInfo
    runs: tuple[RunResult, ...]
    cells: tuple[CellResult, ...]  # a divided one is one
    plan: tuple[PlannedCell, ...] = ()
    scenarios: dict[str, str] = {}  # names, with the digest of each one's file, as far as they are known

    @property
    def planned(self) -> int:
        """How many cells were to be run here, or parts of them, as far as it is known."""
        judged, begun = ({each.key for each in found} for found in (self.cells, self.runs))
        return max(self.info.cells, len(judged | begun | {cell.key for cell in self.plan if cell.here}))

    @property
    def elsewhere(self) -> tuple[CellResult, ...]:
        """The cells that lack parts which were not for this folder: they are judged when the folders are merged."""
        away = {(cell.key, cell.part) for cell in self.plan if not cell.here}
        return tuple(
            cell for cell in self.cells if cell.missing and all((cell.key, part) in away for part in cell.missing)
        )

    @property
    def unjudged(self) -> int:
        """How many cells have no result, or not of all parts: it was interrupted, or ended at the first failure."""
        return self.planned - sum(not cell.missing for cell in self.cells) - len(self.elsewhere)


def priced(campaign: Campaign, price: float) -> Campaign:
    """Return *campaign* with the *price* of a million tokens, in USD."""
    return msgspec.structs.replace(campaign, info=msgspec.structs.replace(campaign.info, price=price))


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
        for name in (JOURNALS, SHARDS):
            shutil.rmtree(folder / name, ignore_errors=True)
    for name in (RUNS, CELLS, PLANNED):
        (folder / name).unlink(missing_ok=True)
    note(folder, CAMPAIGN, info)


def note(folder: Path, name: str, value: CampaignInfo | Planned) -> None:
    """Write the file *name* whole or not at all: an interrupt may come, or another process write it, at any time."""
    fresh = folder / f".{name}.{os.getpid()}"
    fresh.write_bytes(msgspec.json.format(msgspec.json.encode(value)) + b"\n")
    fresh.replace(folder / name)


def read(folder: Path) -> Campaign:
    """Return the campaign in *folder*, finished or not, in the order of its cells; HarnessError if there is none."""
    info, planned, cells, lines = read_parts(folder)
    places: dict[Key, int] = {}
    for cell in cells:
        places.setdefault(cell.key, len(places))
    runs = sorted(lines, key=lambda run: (places.get(run.key, len(places)), run.run))  # first those with a result
    if any(cell.parts > 1 for cell in cells):
        from chaos.whole import wholes  # it judges, and so stands above this module: only divided cells need it

        cells = wholes(cells, runs)
    return Campaign(info=info, runs=tuple(runs), cells=cells, plan=planned.cells, scenarios=planned.scenarios)


def read_parts(folder: Path) -> tuple[CampaignInfo, Planned, tuple[CellResult, ...], tuple[RunResult, ...]]:
    """Return what is written in *folder*: cells, or their parts, in their order, and runs as they ended."""
    try:
        info = msgspec.json.decode((folder / CAMPAIGN).read_bytes(), type=CampaignInfo)
    except (FileNotFoundError, NotADirectoryError):
        raise HarnessError(f"{folder}: no campaign here ({CAMPAIGN} is missing); run `pytest --chaos` first") from None
    path = folder / PLANNED
    planned = msgspec.json.decode(path.read_bytes(), type=Planned) if path.exists() else Planned()
    cells = sorted(_lines(folder / CELLS, CellResult), key=lambda cell: (cell.order, cell.part))
    return info, planned, tuple(cells), tuple(_lines(folder / RUNS, RunResult))


def _lines(path: Path, kind: type[_Line]) -> Iterator[_Line]:
    """Yield the objects of *path*; a torn last line (the job was killed) is left out."""
    if path.exists():
        for line in path.read_bytes().split(b"\n")[:-1]:
            yield msgspec.json.decode(line, type=kind)
