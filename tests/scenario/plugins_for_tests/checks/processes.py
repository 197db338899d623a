from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Processes:
    """The processes are as in the reference."""
