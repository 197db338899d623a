"""Media: what the `cow` strategy keeps its snapshots on, one module for each, all behind one interface.

A snapshot is of the folders workspace and tmp together, and has the number of the step that it was taken in. `content`
works inside the agent and for everybody; the others are file systems, mounted below the sandbox by root. Their
snapshots are beside the zones: an eviction cannot reach them, and who looks at the zones does not take them for the
agent's files.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:  # the agent imports this module, and needs nothing of the harness
    from chaos.sandbox import Zones

START = -1
"""The number of the snapshot that is taken before the first step."""

STEPS = "snapshots"
"""The folder that has a folder for each snapshot, where a medium keeps them in folders."""

FOLDERS = ("workspace", "tmp")
"""The zones that a snapshot is of: what a container loses with its disk."""


class Medium(Protocol):
    """Snapshots of one sandbox; its class makes one from the sandbox's zones, which are empty then."""

    def take(self, step: int) -> None:
        """Keep the folders as they are now as snapshot *step*, a new and higher number; durable on return."""
        ...

    def restore(self, step: int) -> None:
        """Make the folders exactly what they were at *step*, and drop what was taken later: it never counted.

        No process is at work in the folders, and what happened to them since does not matter.

        Raises:
            CorruptStore: the snapshot is not there, or is not what was taken.
        """
        ...

    def steps(self) -> list[int]:
        """Return the numbers of the snapshots, in order."""
        ...

    def drop(self, step: int) -> None:
        """Forget the snapshot *step*; what later ones need of it stays."""
        ...

    def stored_bytes(self) -> int:
        """Return what messages and snapshots take up; what snapshots share counts once."""
        ...

    def written_bytes(self, agent: int) -> int:
        """Return the bytes written for the folders and their snapshots beyond the *agent* bytes.

        Args:
            agent: what the kernel's account of the agent's own process already holds.
        """
        ...

    def close(self) -> None:
        """Undo what was mounted and started; no process is at work in the folders. May be called twice."""
        ...


class Kind(Protocol):
    """The class of a medium."""

    def __call__(self, zones: Zones) -> Medium: ...

    def missing(self) -> str:
        """Return what this machine obviously lacks for it, and the remedy; "" if nothing."""
        ...


def kind(name: str) -> Kind:
    """Return the class of the medium *name*."""
    return cast(Kind, getattr(importlib.import_module(f"{__name__}.{name}"), name.title()))


@functools.cache
def missing(name: str) -> str:
    """Return what this machine lacks for the medium *name*, and the remedy; "" if nothing. It is tried once, for real.

    A container may have root without the right to mount, and a kernel a file system's name without the module.
    """
    from chaos import leftovers
    from chaos.errors import HarnessError
    from chaos.sandbox import Zones

    if reason := kind(name).missing():
        return reason
    trial = leftovers.folder("trial-")
    try:
        zones = Zones(trial / "sandbox")
        for zone in (zones.durable, zones.workspace, zones.tmp):
            zone.mkdir(parents=True)
        medium = kind(name)(zones)
        try:
            medium.take(START)
            medium.restore(START)
        finally:
            medium.close()
    except (HarnessError, OSError) as error:
        return f"{name} snapshots do not work here: {error}; use snapshots: content"
    finally:
        leftovers.remove(trial)
    return ""


def places(zones: Zones) -> list[tuple[str, Path]]:
    """Return name and path of each folder that a snapshot is of."""
    return [(name, zones.root / name) for name in FOLDERS]


def taken(steps: Path) -> list[int]:
    """Return the numbers of the snapshots that have a folder of that name in *steps*, in order."""
    return sorted(int(path.name) for path in steps.iterdir())


def drop_after(step: int, steps: Iterable[int], drop: Callable[[int], None]) -> None:
    """Drop those of *steps* that are later than *step*, the last one first."""
    for later in sorted(steps, reverse=True):
        if later > step:
            drop(later)


def bound(medium: Medium, keep: int) -> None:
    """Drop all but the newest snapshot, whose step is not complete yet, and *keep* before it; 0: drop none."""
    for old in medium.steps()[: -keep - 1] if keep else ():
        medium.drop(old)
