"""Decides what of a sandbox has to be stored: its net change between the ends of two turns. Pure.

A file that was made and removed again, a process that began and ended, a folder's time stamp: no change. A file left
otherwise (its content, kind, mode or time), a process left alive or ended, memory left otherwise: change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from chaos.targets.reference.snapshot import Entry


@dataclass(frozen=True, order=True)
class Process:
    """A process of the sandbox that outlives the turn.

    *pid* is its number in the sandbox, *memory* digests all that it may write; "" where nobody looks at memory.
    """

    argv: tuple[str, ...]
    cwd: str
    environment: tuple[str, ...]
    ports: tuple[int, ...] = ()
    pid: int = 0
    memory: str = ""

    def record(self) -> Process:
        """Return what is left of it in a record from which it can be started again, and no more."""
        return Process(self.argv, self.cwd, self.environment, self.ports)


@dataclass(frozen=True)
class Sight:
    """What the operating system shows of a sandbox at the end of a turn. Paths are those of a `Tree`."""

    files: Mapping[str, Entry]
    processes: tuple[Process, ...]


NOTHING = Sight({}, ())


class Decision(NamedTuple):
    """What has to be stored."""

    files: bool
    processes: bool

    @property
    def skip(self) -> bool:
        """Whether the turn changed nothing."""
        return not (self.files or self.processes)


def decide(before: Sight, now: Sight, *, memory: bool) -> Decision:
    """Return what changed from *before* to *now*.

    Args:
        memory: whether processes are stored with their memory; if not, one that was started again is the same.
    """
    return Decision(_lasting(before.files) != _lasting(now.files), _alive(before, memory) != _alive(now, memory))


def _lasting(files: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return *files* without the times of folders: what was put there and is gone again leaves nothing else."""
    return {path: {**entry, "mtime_ns": 0} if entry["kind"] == "dir" else entry for path, entry in files.items()}


def _alive(sight: Sight, memory: bool) -> Counter[Process]:
    return Counter(process if memory else process.record() for process in sight.processes)
