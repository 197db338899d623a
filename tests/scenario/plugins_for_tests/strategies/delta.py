from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Delta:
    """Deltas, with a snapshot every *every* steps."""

    every: int = 10
    durability: Literal["sync", "async"] = "sync"
