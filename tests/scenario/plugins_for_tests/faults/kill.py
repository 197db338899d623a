from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Kill:
    """The process tree dies; a correct agent goes on from its last commit.

    Args:
        signal: that is sent,
            to the whole tree.
    """

    signal: Literal["SIGKILL", "SIGTERM"] = "SIGKILL"
