"""What media have in common that are file systems, beyond what the sandbox knows of mounts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from chaos.sandbox.mounts import SEARCH, SECTOR_BYTES


def lacking(name: str, *tools: str) -> str:
    """Return what stands in the way of mounting *name*, made by *tools*, and the remedy; "" if nothing is seen."""
    if os.geteuid() != 0:
        return f"mounting {name} needs root; use snapshots: content"
    absent = [tool for tool in tools if not shutil.which(tool, path=SEARCH)]
    return f"no {absent[0]} on the PATH; install it, or use snapshots: content" if absent else ""


def blocks(*tops: Path) -> int:
    """Return the bytes that everything below *tops* takes up on its disk, a file with several names once."""
    seen: dict[tuple[int, int], int] = {}
    for place, folders, files in (found for top in tops for found in os.walk(top)):
        for name in (*folders, *files):
            about = os.lstat(os.path.join(place, name))
            seen[about.st_dev, about.st_ino] = about.st_blocks * SECTOR_BYTES
    return sum(seen.values())
