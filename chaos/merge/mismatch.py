"""What shows that results folders are not of one campaign. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from chaos.merge.folder import Folder, name
from chaos.shards import Key

MOST = 10
"""Lines of each kind that are told: ten cells show the pattern, and hundreds would hide the rest."""

Said = tuple[str, Path]
"""A value, and the folder that has it."""


def mismatches(folders: Sequence[Folder]) -> list[str]:
    """Return where *folders* differ though they must not, each with what would be right; nothing if they fit."""
    return [*_versions(folders), *_scenarios(folders), *_groups(folders), *_divisions(folders), *_verdicts(folders)]


def _versions(folders: Sequence[Folder]) -> Iterator[str]:
    for package in dict.fromkeys(package for folder in folders for package in folder.info.versions):
        said = [(folder.info.versions.get(package, "not noted"), folder.path) for folder in folders]
        yield from _differ(package, said, "run all shards with the same versions")


def _scenarios(folders: Sequence[Folder]) -> Iterator[str]:
    for scenario in dict.fromkeys(scenario for folder in folders for scenario in folder.planned.scenarios):
        digests = (folder.planned.scenarios.get(scenario, "") for folder in folders)
        said = [(digest, folder.path) for digest, folder in zip(digests, folders, strict=True) if digest]
        yield from _differ(f"the file of scenario {scenario!r}", said, "run all shards on the same files")


def _groups(folders: Sequence[Folder]) -> Iterator[str]:
    said = [(shard.shard.split()[-1], each.path) for each in folders for shard in each.shards if shard.shard]
    yield from _differ("the number of groups", said, "give all shards the same --splits")


def _divisions(folders: Sequence[Folder]) -> list[str]:
    """Return the cells that are not divided alike, or whose parts are of different plans because the seeds differ."""
    parts, plans = defaultdict[Key, list[Said]](list), defaultdict[Key, list[Said]](list)
    for folder in folders:
        for cell in folder.known:
            parts[cell.key].append((str(cell.parts), folder.path))
        for ran in folder.cells:
            if ran.parts > 1 and ran.runs:
                plans[ran.key].append((f"{ran.plans} by seed {folder.info.seed}", folder.path))
    what, right = "the number of parts of", "give all shards the same --chaos-parts"
    lines = [line for key, said in parts.items() for line in _differ(f"{what} {name(key)}", said, right)]
    if not lines and len({shard.seed for folder in folders for shard in folder.shards}) > 1:
        what, right = "what is planned for", "give all shards the same --chaos-seed"
        lines = [line for key, said in plans.items() for line in _differ(f"{what} {name(key)}", said, right)]
    return _some(lines)


def _verdicts(folders: Sequence[Folder]) -> list[str]:
    """Return what was run in two folders and did not end alike. A skip is no end."""
    cells = defaultdict[tuple[Key, int, int], list[Said]](list)
    runs = defaultdict[tuple[Key, str, int], list[Said]](list)
    for folder in folders:
        for cell in folder.cells:
            if not cell.skipped:
                told = f"{cell.verdict}, {'as promised' if cell.passed else 'not as promised'}"
                cells[cell.key, cell.part, cell.parts].append((told, folder.path))
        for run in folder.runs:
            runs[run.key, f"{run.plan}#{run.run}", run.seed].append((str(run.verdict), folder.path))
    right = "replay it, and leave the wrong folder out"
    lines = [line for (key, *part), said in cells.items() for line in _differ(name(key, *part), said, right)]
    lines += [line for (key, case, _), said in runs.items() for line in _differ(f"{name(key)}, {case}", said, right)]
    return _some(lines)


def _differ(what: str, said: Iterable[Said], right: str) -> list[str]:
    """Return in which folders *what* differs; nothing if it is the same in all."""
    places: dict[str, Path] = {}
    for value, path in said:
        places.setdefault(value, path)
    told = ", ".join(f"{value} in {path}" for value, path in places.items())
    return [f"{what}: {told}; {right}"] if len(places) > 1 else []


def _some(lines: Sequence[str]) -> list[str]:
    return [*lines[:MOST], *([f"and {len(lines) - MOST} more such"] if len(lines) > MOST else [])]
