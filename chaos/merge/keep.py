"""What several results folders amount to together: each cell, part and run once. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from chaos.errors import HarnessError
from chaos.merge.folder import Folder, name
from chaos.merge.mismatch import MOST, mismatches
from chaos.results import CellResult, RunResult
from chaos.shards import Key, Planned, PlannedCell

Kept = dict[tuple[Key, int], tuple[int, CellResult]]
"""Cell and part to the number of the folder that its result is from, and that."""


@dataclass(frozen=True)
class Merged:
    """What is kept of *folders*: cells and runs with the number, from 0, of the folder that they are from.

    *notes* say what is missing, what was there twice and what differs.
    """

    folders: tuple[Folder, ...]
    planned: Planned
    cells: tuple[tuple[int, CellResult], ...]
    runs: tuple[tuple[int, RunResult], ...]
    notes: tuple[str, ...]


def merged(folders: Sequence[Folder]) -> Merged:
    """Return what *folders* come to; HarnessError names all that shows that they are not of one campaign."""
    if differ := mismatches(folders):
        raise HarnessError("\n".join(["these folders do not belong together:", *differ]))
    places, cells = _places(folders), _cells(folders)
    planned = {(cell.key, cell.part): cell for folder in folders for cell in folder.planned.cells}
    placed = [msgspec.structs.replace(cell, order=places[cell.key], here=True) for cell in planned.values()]
    digests = {scenario: digest for each in folders for scenario, digest in each.planned.scenarios.items()}
    return Merged(
        folders=tuple(folders),
        planned=Planned(scenarios=digests, cells=tuple(sorted(placed, key=lambda cell: (cell.order, cell.part)))),
        cells=tuple((number, msgspec.structs.replace(cell, order=places[cell.key])) for number, cell in cells.values()),
        runs=tuple(_runs(folders, cells)),
        notes=(*_missing(folders, cells, placed), *_notes(folders, cells)),
    )


def _places(folders: Sequence[Folder]) -> dict[Key, int]:
    """Return the place of each cell: the one that the folders say; folder by folder if they say one of two cells."""
    said: dict[Key, int] = {}
    for folder in folders:
        for cell in sorted(folder.known, key=lambda cell: cell.order):
            said.setdefault(cell.key, cell.order)
    return said if len(set(said.values())) == len(said) else {key: place for place, key in enumerate(said)}


def _cells(folders: Sequence[Folder]) -> Kept:
    """Return the result of each cell and part: the first, but one that was run before one that was skipped."""
    kept: Kept = {}
    for number, folder in enumerate(folders):
        for cell in folder.cells:
            _, known = kept.setdefault((cell.key, cell.part), (number, cell))
            if known.skipped and not cell.skipped:
                kept[cell.key, cell.part] = number, cell
    return kept


def _runs(folders: Sequence[Folder], cells: Kept) -> Iterator[tuple[int, RunResult]]:
    """Yield each run once; those of an undivided cell are all of the folder that its result is from."""
    divided = {cell.key for folder in folders for cell in folder.known if cell.parts > 1}
    counts: dict[Key, list[int]] = {}
    for number, folder in enumerate(folders):
        for run in folder.runs:
            counts.setdefault(run.key, [0] * len(folders))[number] += 1
    owners = {key: most.index(max(most)) for key, most in counts.items()}
    owners.update({cell.key: number for number, cell in cells.values()})
    seen = set[tuple[Key, int]]()
    for number, folder in enumerate(folders):
        for run in folder.runs:
            if (run.key in divided or owners[run.key] == number) and (run.key, run.run) not in seen:
                seen.add((run.key, run.run))
                yield number, run


def _missing(folders: Sequence[Folder], cells: Kept, planned: Sequence[PlannedCell]) -> Iterator[str]:
    """Yield which groups and which results are missing, and which folders have not all that they were to have."""
    groups = [shard.shard.split() for folder in folders for shard in folder.shards if shard.shard]
    for of in {group[2] for group in groups}:
        there = {group[0] for group in groups}
        if absent := [group for group in map(str, range(1, int(of) + 1)) if group not in there]:
            yield f"missing: group {' and '.join(absent)} of {of}; merge {'them' if absent[1:] else 'it'} too"
    lost = [name(cell.key, cell.part, cell.parts) for cell in planned if (cell.key, cell.part) not in cells]
    if lost:
        more = f" and {len(lost) - MOST} more" if len(lost) > MOST else ""
        yield f"missing: {', '.join(lost[:MOST])}{more}"
    for folder in folders:
        own = {(cell.key, cell.part) for cell in folder.cells}
        early = [cell for cell in folder.planned.cells if cell.here and (cell.key, cell.part) not in own]
        if not folder.known:
            yield f"{folder.path} ended before its first cell"
        elif early and not folder.info.shards:
            yield f"{folder.path} ended early: it has no result of {len(early)} of its cells or parts"


def _notes(folders: Sequence[Folder], cells: Kept) -> Iterator[str]:
    if twice := sum(len(folder.cells) for folder in folders) - len(cells):
        yield f"in two folders, with equal verdicts, and kept once: {twice} cells or parts"
    seeds = {shard.seed: folder.path for folder in folders for shard in folder.shards}
    if len(seeds) > 1:
        yield f"the seeds differ: {', '.join(f'{seed} in {path}' for seed, path in seeds.items())}"
