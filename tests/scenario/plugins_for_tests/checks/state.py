from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class State:
    """The state are as in the reference."""
