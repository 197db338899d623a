"""What a campaign consists of, whichever machines run it, and what several were merged from: values that are kept."""

from __future__ import annotations

import msgspec

Key = tuple[str, str, str]
"""Scenario, strategy and fault: what a cell is called in all files."""


class PlannedCell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell of a campaign, or a part of one; *here*: it was for this folder, and for no other machine's.

    *runs*: about how many it has; *file*: of its scenario, as a user would type it.
    """

    scenario: str
    strategy: str
    fault: str
    order: int
    part: int = 1
    parts: int = 1
    here: bool = True
    runs: int = 0
    file: str = ""

    @property
    def key(self) -> Key:
        return self.scenario, self.strategy, self.fault


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """All cells of a campaign; *scenarios* are the names of their files' scenarios, with the digest of each file."""

    v: int = 1
    scenarios: dict[str, str] = {}
    cells: tuple[PlannedCell, ...] = ()


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """One of the campaigns that were merged into one: its name and seed, and where and how it was made."""

    campaign: str
    seed: int
    began: str
    command: str
    host: str
    shard: str
    cells: int
