"""Snapshots as layers of an overlay file system: what changed since the incarnation began, over what it began with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.sandbox.mounts import command, undone, unmount
from chaos.targets.reference.media import FOLDERS, STEPS, drop_after, places
from chaos.targets.reference.media.copies import Copies, dress
from chaos.targets.reference.media.mounts import blocks, lacking
from chaos.targets.reference.snapshot import CorruptStore

if TYPE_CHECKING:
    from chaos.sandbox import Zones

# redirect_dir: a folder of a lower layer can be renamed, as anywhere else; the note of it is a path, and stays right in
# a copy. The others keep inode numbers in the layers, which do not.
OPTIONS = "redirect_dir=on,index=off,metacopy=off,xino=off"
# The kernel takes 500 layers, and 4,095 bytes of options; each more makes every look-up of a missing name slower.
MOST_LAYERS = 32
BASES = "bases"  # file beside a step's layers: the steps whose layers are below them, topmost first
AT_ONCE = 8  # files written back at the same time: a journaling file system commits them together
NOTHING = "nothing"  # an empty folder: an overlay needs a lower layer


class Overlay:
    """One mount of workspace and tmp each for every incarnation: a process that runs would keep the old one.

    Written to is a folder beside the sandbox; a snapshot is an immutable copy of it, in which a file that has not
    changed is the one of the snapshot before. A restore mounts that copy, over those that its incarnation began with,
    below a new and empty folder; when they are too many, they become one layer first.
    """

    def __init__(self, zones: Zones) -> None:
        self._zones = zones
        self._steps = zones.root.parent / STEPS
        self._live = zones.root.parent / "overlay"
        self._written = 0
        for folder in (self._steps, zones.root.parent / NOTHING):
            folder.mkdir()
        with undone(self.close):
            self._mount([])

    @staticmethod
    def missing() -> str:
        """Return what is missing."""
        return lacking("overlay")

    def take(self, step: int) -> None:
        """Copy what was written, and have the copies of changed files written back."""
        target = self._steps / str(step)
        target.mkdir()
        copied = [file for name in FOLDERS for file in self._copies[name].take(self._live / name, target / name)]
        self._written += sum(file.stat().st_size for file in copied)
        (target / BASES).write_text(" ".join(map(str, self._bases)))
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(_write_back, (*copied, target / BASES, target)))

    def restore(self, step: int) -> None:
        """Mount the layers of *step* below new folders; see the protocol for what it raises."""
        if step not in self.steps():
            raise CorruptStore(f"there is no snapshot of step {step}")
        layers = [step, *self._below(step)]
        for layer in layers:
            if not all((self._steps / str(layer) / name).is_dir() for name in FOLDERS):
                raise CorruptStore(f"step {step} needs the layer of step {layer}, which is not there")
        self._unmount()
        drop_after(step, self.steps(), self.drop)
        if len(layers) > MOST_LAYERS:
            layers = self._flattened(layers)
        self._mount(layers)

    def steps(self) -> list[int]:
        """Return the numbers of the snapshots, in order."""
        return sorted(int(file.parent.name) for file in self._steps.glob(f"*/{BASES}"))

    def drop(self, step: int) -> None:
        """Remove the layers of *step*, those that other snapshots are made over only when the last of these goes."""
        (self._steps / str(step) / BASES).unlink()
        steps = self.steps()
        needed = {*steps, *self._bases, *(base for other in steps for base in self._below(other))}
        for layer in self._steps.iterdir():
            if int(layer.name) not in needed:
                shutil.rmtree(layer)

    def stored_bytes(self) -> int:
        """Return the blocks of messages and layers; a file with names in several layers counts once."""
        return blocks(self._zones.durable, self._steps)

    def written_bytes(self, agent: int) -> int:
        """Return the bytes of the files copied into layers; what the agent wrote is in its own account."""
        return self._written

    def close(self) -> None:
        """Unmount the folders, and remove what was written to."""
        self._unmount()

    def _below(self, step: int) -> list[int]:
        return [int(base) for base in (self._steps / str(step) / BASES).read_text().split()]

    def _mount(self, layers: Sequence[int]) -> None:
        """Mount the folders as the steps *layers* have them, topmost first, with nothing written to them yet."""
        self._bases, self._copies = list(layers), {name: Copies() for name in FOLDERS}
        for name, place in places(self._zones):
            upper, work = self._live / name, self._live / f"{name}.work"
            upper.mkdir(parents=True)
            work.mkdir()
            if layers:
                dress(self._steps / str(layers[0]) / name, upper)
            self._overlay(place, name, layers, f",upperdir={upper},workdir={work}")

    def _overlay(self, place: Path, name: str, layers: Sequence[int], more: str = "") -> None:
        # Relative to the layers' folder, so that many fit into the options.
        lower = ":".join(f"{layer}/{name}" for layer in layers) or f"../{NOTHING}"
        command("mount", "-t", "overlay", "-o", f"lowerdir={lower},{OPTIONS}{more}", "overlay", place, cwd=self._steps)

    def _unmount(self) -> None:
        for _, place in places(self._zones):
            unmount(place)
        self._bases = []
        shutil.rmtree(self._live, ignore_errors=True)

    def _flattened(self, layers: Sequence[int]) -> list[int]:
        """Make the topmost of the *layers* hold all that they show together, and return it alone."""
        step = self._steps / str(layers[0])
        for name, place in places(self._zones):
            self._overlay(place, name, layers)
            try:
                for file in Copies().take(place, step / f"{name}.flat"):
                    self._written += file.stat().st_size
            finally:
                unmount(place)
            shutil.rmtree(step / name)
            (step / f"{name}.flat").rename(step / name)
        (step / BASES).write_text("")
        return [layers[0]]


def _write_back(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
