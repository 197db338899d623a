"""A results folder as it is written: with the parts of cells, and runs as they ended."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from chaos import results
from chaos.results import CampaignInfo, CellResult, RunResult
from chaos.shards import Key, Planned, PlannedCell, Shard


class Folder(NamedTuple):
    """The results folder at *path*; *cells* are parts of cells where those are divided."""

    path: Path
    info: CampaignInfo
    planned: Planned
    cells: tuple[CellResult, ...]
    runs: tuple[RunResult, ...]

    @property
    def shards(self) -> tuple[Shard, ...]:
        """What it was merged from; itself if it was not."""
        return self.info.shards or (Shard(**{name: getattr(self.info, name) for name in Shard.__struct_fields__}),)

    @property
    def known(self) -> tuple[PlannedCell | CellResult, ...]:
        """The cells that it knows of, planned and run."""
        return (*self.planned.cells, *self.cells)


def read(path: Path) -> Folder:
    """Return what is in the results folder *path*; HarnessError if it is none."""
    return Folder(path, *results.read_parts(path))


def name(key: Key, part: int = 1, parts: int = 1) -> str:
    """Return the name of a cell, or of a part of one."""
    scenario, strategy, fault = key
    return f"{strategy} x {fault} of {scenario}" + (f" (part {part} of {parts})" if parts > 1 else "")
