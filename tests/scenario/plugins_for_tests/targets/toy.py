from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chaos import registry
from chaos.errors import ScenarioError


@dataclass(frozen=True)
class Toy:
    """A target that runs *length* steps."""

    length: int = 40
    workload: str = "sales"

    def __post_init__(self) -> None:
        if self.length < 2:
            raise ScenarioError(f"length must be at least 2 (got {self.length})")

    def strategy(self, name: str, options: Mapping[str, object]) -> object:
        return registry.load("strategies", name)(**options)

    @property
    def steps(self) -> int:
        return self.length
