"""The storage tax: what each strategy stores, writes and takes, N steps on, beside what arithmetic and others say.

Each strategy runs once, killed at given steps. No reference run is made: what is proved instead is that every kill
landed, that no step was lost, and that all strategies came to the same end.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from chaos import growth, measure
from chaos.errors import HarnessError
from chaos.growth import Fit, Row
from chaos.landing import misses
from chaos.published import PUBLISHED, PUBLISHED_BYTES, model

if TYPE_CHECKING:
    from chaos.campaign import Cell, Runner
    from chaos.record import Record

FILE = "storage_tax.json"
VERSION = 1


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of a strategy gave. *state* digests the agent's last state; *lost* are the steps lost per crash.

    *wrong* says why the run proves nothing, *skipped* why it did not take place.
    """

    strategy: str
    bytes_per_step: int = 0
    steps: int = 0
    rows: tuple[Row, ...] = ()
    state: str = ""
    lost: tuple[int, ...] = ()
    seconds: float = 0.0
    wrong: tuple[str, ...] = ()
    skipped: str = ""


class TaxRow(Row, frozen=True, kw_only=True):
    """A row of the table: what was measured of *strategy*."""

    strategy: str


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """How the bytes of *strategy* grow; None where there are none."""

    strategy: str
    stored: Fit | None
    written: Fit | None


class Modelled(msgspec.Struct, frozen=True, kw_only=True):
    """What arithmetic says."""

    strategy: str
    n: int
    formula: str
    stored_bytes: int
    written_bytes: int


class Cited(msgspec.Struct, frozen=True, kw_only=True):
    """What was published about *about*, and so about *strategy*.

    *comparable* if it was for the same work: N steps of as many bytes.
    """

    strategy: str
    about: str
    n: int | None
    stored_bytes: int | None
    kind: str
    source: str
    comparable: bool
    remark: str


class Tax(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, as it stands in `storage_tax.json`. *problems* are what keeps it from being a result."""

    v: int = VERSION
    bytes_per_step: int
    seed: int
    began: str  # ISO 8601, UTC
    seconds: float
    versions: dict[str, str]
    machine: dict[str, str]
    rows: tuple[TaxRow, ...]
    exponents: tuple[Growth, ...]
    model: tuple[Modelled, ...]
    published: tuple[Cited, ...]
    skipped: dict[str, str]  # strategy to reason
    problems: tuple[str, ...]


def measured(runner: Runner, cell: Cell, folder: Path) -> Measured:
    """Run *cell* once for its numbers. The journal is removed from *folder*, unless the run proves nothing."""
    label = cell.strategy.label
    if reason := runner.unsuited(cell) or runner.lacking(cell):
        return Measured(strategy=label, skipped=reason)
    try:
        setup, plan, run = runner.once(cell, folder)
    except HarnessError as error:
        return Measured(strategy=label, wrong=(str(error),))
    found = Measured(
        strategy=label,
        bytes_per_step=bytes_per_step(cell),
        steps=cell.scenario.target.steps,
        rows=growth.rows(run),
        state=final_state(run),
        lost=measure.lost_by_crash(run),
        seconds=run.events[-1].at,
        wrong=_unfinished(run) or misses(run, plan, setup),
    )
    found = msgspec.structs.replace(found, wrong=(*found.wrong, *_lost(found, cell)))
    if not found.wrong:
        shutil.rmtree(folder)  # some 60 MB
    return found


def bytes_per_step(cell: Cell) -> int:
    """Return by how many bytes the conversation of *cell* grows in a step; 0 if its target does not say."""
    return int(getattr(cell.scenario.target, "bytes_per_step", 0))


def final_state(run: Record) -> str:
    """Return the digest of the state that the agent announced when all was done; "" if it announced none."""
    return next((point.state or "" for point in reversed(run.points) if point.phase == "finished"), "")


def _unfinished(run: Record) -> tuple[str, ...]:
    """Return what the agent said last if it did not come to its end."""
    if run.finished:
        return ()
    said = run.exits[-1].log.strip().splitlines() if run.exits else []
    return (f"it did not finish ({run.ended}): {said[-1] if said else 'it said nothing'}",)


def _lost(found: Measured, cell: Cell) -> tuple[str, ...]:
    """Return what was lost beyond the scenario's allowance, unless the scenario expects that."""
    allowed, worst = cell.scenario.terms.max_lost_steps, max(found.lost, default=0)
    if allowed is None or worst <= allowed or "recovery" in _excused(cell):
        return ()
    return (f"a crash cost {worst} steps, {allowed} are allowed",)


def _excused(cell: Cell) -> set[str]:
    """Return the checks that the scenario allows *cell* to break."""
    expected = cell.scenario.expectation(cell.strategy, cell.fault)
    return {check for each in expected for check in (*each.breaks, *each.may_break)}


def disagreements(found: Sequence[tuple[Cell, Measured]]) -> list[str]:
    """Return which strategies came to another end than most that did the same work and keep the whole state."""
    ends: dict[object, dict[str, list[str]]] = {}
    for cell, each in found:
        if each.state and "state" not in _excused(cell):
            ends.setdefault(cell.scenario.target, {}).setdefault(each.state, []).append(each.strategy)
    wrong = []
    for by_state in ends.values():
        *few, most = sorted(by_state.values(), key=len)
        wrong += [f"{', '.join(labels)}: the final state is not that of {', '.join(most)}" for labels in few]
    return wrong


def assembled(
    found: Sequence[tuple[Cell, Measured]],
    *,
    seed: int,
    began: str,
    seconds: float,
    versions: Mapping[str, str],
    machine: Mapping[str, str],
) -> Tax:
    """Return everything that was *found*, with the models and the published figures beside it."""
    ran = [(cell, each) for cell, each in found if not each.skipped]
    wrong = [f"{each.strategy}: {why}" for _, each in ran for why in each.wrong]
    return Tax(
        bytes_per_step=max((each.bytes_per_step for _, each in ran), default=0),
        seed=seed,
        began=began,
        seconds=seconds,
        versions=dict(versions),
        machine=dict(machine),
        rows=tuple(
            TaxRow(strategy=each.strategy, **msgspec.structs.asdict(row)) for _, each in ran for row in each.rows
        ),
        exponents=tuple(_growth(each) for _, each in ran),
        model=tuple(line for cell, each in ran for line in _models(cell, each)),
        published=tuple(line for cell, each in ran for line in _cited(cell, each)),
        skipped={each.strategy: each.skipped for _, each in found if each.skipped},
        problems=(*wrong, *_uncounted(ran), *disagreements(ran)),
    )


def _growth(each: Measured) -> Growth:
    return Growth(
        strategy=each.strategy,
        stored=growth.fit([(row.n, row.stored_bytes) for row in each.rows]),
        written=growth.fit([(row.n, row.written_bytes) for row in each.rows]),
    )


def _models(cell: Cell, each: Measured) -> list[Modelled]:
    options = options_of(cell)
    lines = []
    for row in each.rows:
        if said := model(cell.strategy.name, options, each.bytes_per_step, row.n, each.steps):
            lines.append(
                Modelled(
                    strategy=each.strategy,
                    n=row.n,
                    formula=said.formula,
                    stored_bytes=said.stored,
                    written_bytes=said.written,
                )
            )
    return lines


def _cited(cell: Cell, each: Measured) -> list[Cited]:
    options = options_of(cell)
    return [
        Cited(
            strategy=each.strategy,
            about=said.label,
            n=n,
            stored_bytes=size,
            kind=said.kind,
            source=said.source,
            comparable=not said.workload,
            remark="; ".join(filter(None, (said.workload, said.remark))),
        )
        for said in PUBLISHED
        if said.about(cell.strategy.name, options) and (said.workload or each.bytes_per_step == PUBLISHED_BYTES)
        for n, size in (said.given or ((None, None),))
    ]


def options_of(cell: Cell) -> dict[str, object]:
    """Return all options of the strategy of *cell*, those that the scenario leaves out included."""
    strategy = cell.strategy.strategy
    if not dataclasses.is_dataclass(strategy):
        return {}
    return {field.name: getattr(strategy, field.name) for field in dataclasses.fields(strategy)}


def _uncounted(ran: Sequence[tuple[Cell, Measured]]) -> list[str]:
    """Return which strategies stored what nobody is said to have written: the kernel does not count it everywhere."""
    few = [each.strategy for _, each in ran if any(row.written_bytes < row.stored_bytes // 2 for row in each.rows)]
    remedy = "is the folder for temporary files in memory? Set TMPDIR to one on a disk"
    return [f"{', '.join(few)}: fewer bytes were written than are stored; {remedy}"] if few else []


def write(folder: Path, tax: Tax) -> Path:
    """Write *tax* into *folder* and return the file."""
    path = folder / FILE
    path.write_bytes(msgspec.json.format(msgspec.json.encode(tax)) + b"\n")
    return path


def read(folder: Path) -> Tax | None:
    """Return the storage tax that was measured in *folder*; None if there is none."""
    path = folder / FILE
    return msgspec.json.decode(path.read_bytes(), type=Tax) if path.exists() else None
