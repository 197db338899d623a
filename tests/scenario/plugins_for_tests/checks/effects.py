from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effects:
    """The effects are as in the reference."""
