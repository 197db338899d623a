"""Finds the inspector out: a full diff of every turn, which remembers nothing and trusts no time stamp."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chaos.targets.reference.semantic.inspector import Decision, Process
from chaos.targets.reference.semantic.processes import Sighting
from chaos.targets.reference.snapshot import digest_of

Everything = dict[str, tuple[object, ...]]
"""Each path of the folders with its kind, mode and what it holds; a file's time too, which `make` goes by."""


@dataclass
class Audit:
    """Finds the wrong decisions over *folders*.

    Args:
        memory: whether the memory of processes is stored, so that a change of it must not be missed.
    """

    folders: Mapping[str, Path]
    memory: bool
    _files: Everything = field(default_factory=dict)
    _processes: tuple[Process, ...] = ()

    def begun(self) -> None:
        """Compare the next turn with nothing: nothing was put back."""
        self._files, self._processes = {}, ()

    def restored(self, processes: tuple[Process, ...]) -> None:
        """Compare the next turn with what was put back: the folders as they are now, and *processes*."""
        self._files, self._processes = everything(self.folders), processes

    def turn(self, agent: int, decision: Decision) -> dict[str, int]:
        """Look at all that there is, compare it with the turn before, and judge the *decision*.

        Returns:
            1 or 0 for "false_negatives", something changed that it denies, and for "false_positives".
        """
        # A new Sighting knows of nothing: all memory is read.
        files, processes = everything(self.folders), Sighting(memory=self.memory).look(agent)
        changed = Decision(files != self._files, processes != self._processes)
        self._files, self._processes = files, processes
        pairs = list(zip(changed, decision, strict=True))
        return {
            "false_negatives": int(any(is_so and not said for is_so, said in pairs)),
            "false_positives": int(any(said and not is_so for is_so, said in pairs)),
        }


def everything(folders: Mapping[str, Path]) -> Everything:
    """Return all that is in *folders*, every content read."""
    found: Everything = {}
    for name, folder in folders.items():
        for place in sorted(folder.rglob("*")):
            about = place.lstat()
            kind, mode = stat.S_IFMT(about.st_mode), stat.S_IMODE(about.st_mode)
            held: tuple[object, ...] = ()
            if stat.S_ISREG(about.st_mode):
                held = (about.st_mtime_ns, digest_of(place))
            elif stat.S_ISLNK(about.st_mode):
                held = (about.st_mtime_ns, os.readlink(place))
            found[f"{name}/{place.relative_to(folder)}"] = (kind, mode, *held)
    return found
