from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Files:
    """The files are as in the reference."""
