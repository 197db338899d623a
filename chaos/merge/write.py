"""The merged folder, written. What each machine left is below `shards/NUMBER` as it was there.

So a journal that names another one by a relative path still finds it, and equal names of two machines do not collide.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from chaos import results
from chaos.errors import HarnessError
from chaos.merge.folder import Folder
from chaos.merge.keep import Merged
from chaos.results import CampaignInfo, CellResult, Minimal, RunResult
from chaos.shrink.bundle import FAILURES

_TREES = (results.JOURNALS, FAILURES, results.SHARDS)  # the last is of what was merged before
_FILES = (results.CAMPAIGN, results.RUNS, results.CELLS, results.PLANNED)
_OTHERS = ("report.html", ".gitignore")


def write(merged: Merged, out: Path, command: Sequence[str]) -> None:
    """Write *merged* into the folder *out*, in place of an earlier campaign there.

    Args:
        command: the words that asked for it.
    """
    _clear(out, [folder.path for folder in merged.folders])
    known: dict[bytes, Path] = {}
    for number, folder in enumerate(merged.folders):
        for tree in _TREES:
            _link(folder.path / tree, out / _prefix(number) / tree, known)
    cells = [_moved_cell(cell, number, out) for number, cell in merged.cells]
    (out / results.RUNS).write_bytes(_lines(_moved_run(run, number) for number, run in merged.runs))
    (out / results.CELLS).write_bytes(_lines(cells))
    results.note(out, results.PLANNED, merged.planned)
    results.note(out, results.CAMPAIGN, _info(merged, command))  # last: half a merge must not pass for a whole one


def _prefix(number: int) -> Path:
    return Path(results.SHARDS, str(number + 1))


def _clear(out: Path, sources: Sequence[Path]) -> None:
    """Make room in *out*; HarnessError if that would cost one of *sources*, or somebody else's files."""
    for source in sources:
        one, other = source.resolve(), out.resolve()
        if one.is_relative_to(other) or other.is_relative_to(one):
            raise HarnessError(f"{out}: {source} is merged into it; name another folder with -o")
    if out.exists() and not (out / results.CAMPAIGN).exists():
        ours = {*_TREES, *_FILES, *_OTHERS}
        if not out.is_dir() or any(path.name not in ours for path in out.iterdir()):
            raise HarnessError(f"{out}: not empty, and no results folder; name another one with -o")
    for name in (*_FILES, "report.html"):
        (out / name).unlink(missing_ok=True)
    for name in _TREES:
        shutil.rmtree(out / name, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)


def _link(tree: Path, to: Path, known: dict[bytes, Path]) -> None:
    """Have all files below *tree* below *to* as well, linked or copied; journals of equal references are kept once.

    Args:
        known: digest to the place of what is there; added to.
    """
    for folder, _, names in os.walk(tree):
        own = to / Path(folder).relative_to(tree)
        own.mkdir(parents=True, exist_ok=True)
        for name in names:
            source = Path(folder, name)
            if "reference" in source.relative_to(tree).parts:
                source = known.setdefault(hashlib.sha256(source.read_bytes()).digest(), source)
            try:
                os.link(source, own / name)
            except OSError:  # another file system, or one without links
                shutil.copy2(source, own / name)


def _moved_run(run: RunResult, number: int) -> RunResult:
    prefix = _prefix(number)
    paths = {"journal": run.journal, "reference": run.reference}
    return msgspec.structs.replace(run, **{name: str(prefix / path) for name, path in paths.items() if path})


def _moved_cell(cell: CellResult, number: int, out: Path) -> CellResult:
    return msgspec.structs.replace(cell, minimal=tuple(_moved(each, number, out) for each in cell.minimal))


def _moved(minimal: Minimal, number: int, out: Path) -> Minimal:
    """Return *minimal* with the bundle where it is now, in its command too."""
    if not minimal.bundle:
        return minimal
    bundle = str(_prefix(number) / minimal.bundle)
    before, found, name = minimal.replay.rpartition(f"{minimal.bundle}/")
    start = before.rfind(" ") + 1
    replay = f"{before[:start]}{out / bundle}/{name}" if found else minimal.replay
    return msgspec.structs.replace(minimal, bundle=bundle, replay=replay)


def _info(merged: Merged, command: Sequence[str]) -> CampaignInfo:
    """Return how the merged campaign was made: by the first of the folders, where they agree."""
    infos = [folder.info for folder in merged.folders]
    first = min(infos, key=lambda info: info.began)
    shards = tuple(shard for folder in merged.folders for shard in folder.shards)
    return CampaignInfo(
        campaign=f"{first.campaign}+{len(shards) - 1}",
        seed=first.seed,
        began=first.began,
        command=shlex.join(command),
        versions=first.versions,
        machine={name: _told(name, merged.folders) for info in infos for name in info.machine},
        cells=len({cell.key for cell in merged.planned.cells}),
        shards=shards,
        notes=merged.notes,
        price=first.price,
    )


def _told(name: str, folders: Sequence[Folder]) -> str:
    """Return what the machines say of *name*: once if they agree, else each with the folder that it is of."""
    said: dict[str, list[str]] = {}
    for folder in folders:
        said.setdefault(folder.info.machine.get(name, "not noted"), []).append(folder.path.name)
    return next(iter(said)) if len(said) == 1 else "; ".join(f"{what} ({', '.join(of)})" for what, of in said.items())


def _lines(values: Iterable[RunResult | CellResult]) -> bytes:
    return b"".join(msgspec.json.encode(value) + b"\n" for value in values)
