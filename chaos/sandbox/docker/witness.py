"""A second witness of the files: what `docker diff` says was added to a container must be what we saw in it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from chaos.events.seen import Observation
from chaos.sandbox import Watch, Zones
from chaos.sandbox.observe import volatile

DELETED = 2
PATH_MAX = 4096  # what lies deeper cannot be looked at
GIT = re.compile(r"(^|.*/)\.git(/.*)?")  # of a repository git tells, not the list of files
ODD = re.compile(r"\\x[0-9a-f]{2}|�")  # a byte that is no text, as the observation and the engine write it


def below(diff: Sequence[dict[str, Any]], zones: Zones) -> list[str]:
    """Return the paths of *diff* in the container's own zones, relative to their root."""
    top = f"{zones.root}/"
    tops = tuple(f"{zone}/" for zone in (zones.workspace, zones.tmp))
    there = (entry["Path"] for entry in diff if entry["Kind"] != DELETED)
    return [path.removeprefix(top) for path in there if path.startswith(tops)]


def differences(diff: Sequence[dict[str, Any]], seen: Observation, zones: Zones, watch: Watch) -> tuple[str, ...]:
    """Return in words which files only one of the two witnesses knows; none: they agree."""
    ours = {_plain(entry.path) for entry in seen.files}
    theirs = {_plain(path) for path in below(diff, zones) if _listed(path, watch)}
    return (
        *(f"{path}: in the engine's layer, not seen" for path in sorted(theirs - ours)),
        *(f"{path}: seen, not in the engine's layer" for path in sorted(ours - theirs)),
    )


def _listed(path: str, watch: Watch) -> bool:
    """Tell whether an observation lists *path*: a folder that it leaves out takes its content along."""
    parts = path.split("/")
    prefixes: Collection[str] = ["/".join(parts[: n + 1]) for n in range(len(parts))]
    left_out = any(volatile(watch).fullmatch(prefix) for prefix in prefixes)
    return not left_out and not GIT.fullmatch(path) and len(path) < PATH_MAX


def _plain(path: str) -> str:
    return ODD.sub("?", path)
