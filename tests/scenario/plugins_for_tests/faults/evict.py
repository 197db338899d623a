from __future__ import annotations

from dataclasses import dataclass

from chaos.errors import ScenarioError
from chaos.scenario.units import Bytes, Seconds


@dataclass(frozen=True)
class Evict:
    """The machine is taken away after *grace*. A correct agent comes back elsewhere."""

    grace: Seconds = 0.2
    lose_disk: bool = False
    """A new machine: everything outside the store is gone."""

    codes: tuple[int, ...] = (137,)
    keep: Bytes | None = None
    copy: float = 0.5  # the name of a method of pydantic's models

    def __post_init__(self) -> None:
        if self.grace > 60:
            raise ScenarioError(f"grace must be at most one minute (got {self.grace})")
        if 0 in self.codes:
            raise ScenarioError("codes cannot be 0\nand this is bad")
