"""A divided cell judged as one, from the results of its parts. Pure.

A part asks only that nothing broke which must not. That what should break did break in some run is a promise about the
whole, and asked when all parts are there; before, the cell is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from chaos import judge
from chaos.results import CellResult, Minimal, RunResult
from chaos.scenario import ExpectedFailure
from chaos.verdict import CellVerdict, worst


def wholes(cells: Sequence[CellResult], runs: Sequence[RunResult]) -> tuple[CellResult, ...]:
    """Return *cells* with the parts of each divided one made one, at the place of its first.

    Args:
        runs: of all cells; those of one cell in the order of their numbers.
    """
    parts: dict[tuple[str, str, str], dict[int, CellResult]] = {}
    for cell in cells:
        parts.setdefault(cell.key, {})[cell.part] = cell  # one that was run again counts with its last result
    own: dict[tuple[str, str, str], list[RunResult]] = {key: [] for key in parts}
    for run in runs:
        own.get(run.key, []).append(run)
    return tuple(
        _whole(found, own[key]) if any(part.parts > 1 for part in found.values()) else found[1]
        for key, found in parts.items()
    )


def _whole(parts: Mapping[int, CellResult], runs: Sequence[RunResult]) -> CellResult:
    """Return what the *parts* of a cell, by number, and all its *runs* so far amount to."""
    first = parts[min(parts)]
    missing = tuple(number for number in range(1, first.parts + 1) if number not in parts)
    if not missing and all(part.skipped for part in parts.values()):
        return msgspec.structs.replace(first, part=1)
    idle = [part for part in parts.values() if not part.runs and (part.skipped or not part.passed)]
    objections = [*_objections(first.parts, missing, idle), *_disagreements(parts, runs)]
    expected = [ExpectedFailure("", "", one.breaks, one.may_break, one.because) for one in first.expects]
    judged = judge.cell_verdict(runs, expected, strict=not missing)
    known = _known(parts.values())
    if not judged.passed and not objections and all(part.passed or part.known for part in parts.values()):
        accepted = ExpectedFailure("", "", (), tuple(known), "known")
        known = known if judge.cell_verdict(runs, [*expected, accepted], strict=not missing).passed else {}
    else:
        known = {}
    verdict = worst([*(run.verdict for run in runs), *(part.verdict for part in idle)])
    if any(part.plans != first.plans for part in parts.values() if part not in idle):
        verdict = worst((verdict, CellVerdict.UNKNOWN))
    shown = next((run for run in runs if run.verdict is verdict), None)
    return msgspec.structs.replace(
        first,
        part=1,
        verdict=verdict,
        passed=judged.passed and not objections,
        expected=judged.expected and not objections,
        why="; ".join([*objections, *([] if objections and (judged.passed or not runs) else [judged.why])]),
        findings={name: shown.checks[name].finding for name in shown.broke} if shown else {},
        runs=len(runs),
        planned=sum(run.planned for run in runs),
        landed=sum(len(run.landed) for run in runs),
        real_because=next((part.real_because for part in parts.values() if part.real_because), ""),
        skipped="",
        known=known,
        replay=shown.replay if shown else "",
        minimal=_smallest(one for part in parts.values() for one in part.minimal),
        missing=missing,
    )


def _known(parts: Iterable[CellResult]) -> dict[str, tuple[str, ...]]:
    """Return what the baseline accepts of all *parts*."""
    found: dict[str, set[str]] = {}
    for part in parts:
        for check, places in part.known.items():
            found.setdefault(check, set()).update(places)
    return {check: tuple(sorted(places)) for check, places in sorted(found.items())}


def _smallest(found: Iterable[Minimal]) -> tuple[Minimal, ...]:
    """Return of each different failure the first: every part has made its own ones small."""
    different: dict[tuple[CellVerdict, str], Minimal] = {}
    for one in found:
        different.setdefault((one.verdict, one.check), one)
    return tuple(different.values())


def _objections(of: int, missing: Sequence[int], idle: Sequence[CellResult]) -> list[str]:
    """Return what is not there of a cell of so many parts (*of*)."""
    absent = ", ".join(map(str, missing))
    lines = (
        [f"part{'s' * (len(missing) > 1)} {absent} of {of} {'are' if missing[1:] else 'is'} missing"] if missing else []
    )
    return lines + [f"part {part.part} of {of} ran nothing: {part.skipped or part.why}" for part in idle]


def _disagreements(parts: Mapping[int, CellResult], runs: Sequence[RunResult]) -> list[str]:
    """Return what shows that *parts* are not of one whole, or that *runs* are not all of theirs."""
    plans = {part.plans: part for part in parts.values() if part.runs}
    lines = [" but ".join(f"part {part.part} is of {told}" for told, part in plans.items())] if len(plans) > 1 else []
    if len({part.parts for part in parts.values()}) > 1:
        lines.append(f"it was divided in {' and in '.join(str(part.parts) for part in parts.values())}")
    counted = sum(part.runs for part in parts.values())
    return lines + ([f"only {len(runs)} of {counted} runs are there"] if len(runs) < counted else [])
