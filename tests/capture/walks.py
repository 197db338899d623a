"""All that is in some folders, by a walk that knows nothing of what was seen before: what a shelf is measured by."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple


class Walk(NamedTuple):
    """What a naive walk sees in one zone."""

    visible: dict[bytes, tuple[Any, ...]]  # path to kind, permission bits, and content or target
    times: dict[bytes, int]


def walk(zone: Path) -> Walk:
    """Walk over everything in *zone*, itself included."""
    visible: dict[bytes, tuple[Any, ...]] = {}
    times: dict[bytes, int] = {}
    todo = [os.fsencode(zone)]
    for path in todo:  # grows
        try:
            about = os.lstat(path)
        except FileNotFoundError:
            continue
        content: bytes | None = None
        if stat.S_ISDIR(about.st_mode):
            todo += sorted(os.path.join(path, name) for name in os.listdir(path))
        elif stat.S_ISLNK(about.st_mode):
            content = os.readlink(path)
        elif stat.S_ISREG(about.st_mode):
            with open(path, "rb") as file:
                content = file.read()
        name = path.removeprefix(os.fsencode(zone))
        visible[name] = stat.S_IFMT(about.st_mode), stat.S_IMODE(about.st_mode), content
        times[name] = about.st_mtime_ns
    return Walk(visible, times)


def same_files(*zones: Path) -> set[frozenset[bytes]]:
    """Return the groups of paths in *zones* that are names of one file."""
    groups: dict[tuple[int, int], list[bytes]] = defaultdict(list)
    for zone in zones:
        for name in walk(zone).visible:
            path = os.fsencode(zone) + name
            about = os.lstat(path)
            if stat.S_ISREG(about.st_mode) and about.st_nlink > 1:
                groups[about.st_dev, about.st_ino].append(path)
    return {frozenset(paths) for paths in groups.values() if len(paths) > 1}
