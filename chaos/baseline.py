"""Known failures: what `--chaos-baseline FILE` accepts, so that only new ones fail.

One line for each promise that breaks: where, which, and in what place (see `chaos.causes`). A run that proves nothing
(a fault that missed, a check that could not judge, an error of the harness) is never accepted, nor is a promise that
was kept though the scenario expects it to break.

    version: 1
    known:
    - {scenario: quick, strategy: cow, fault: late, check: effects, place: effect email.send, because: issue 12}

Without `place` any place will do. With `strict: true` what no longer breaks is a failure, as in expected_failures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from chaos import causes, judge
from chaos.errors import ScenarioError
from chaos.results import CellResult, RunResult
from chaos.scenario import ExpectedFailure
from chaos.shards import Key
from chaos.verdict import CellVerdict

VERSION = 1
HEAD = """\
# Failures of `pytest --chaos` that are known: --chaos-baseline accepts them, and new ones fail.
# Written by --chaos-write-baseline; add `because:` to a line, or leave `place:` out to accept any.
"""
_KEYS = ("scenario", "strategy", "fault", "check")
_PROVES_NOTHING = (CellVerdict.NOT_EXERCISED, CellVerdict.HARNESS_ERROR, CellVerdict.UNKNOWN)
_PLAIN = re.compile(r"[A-Za-z_./][\w./:@=+-]*(?: [\w./:@=+-]+)*")  # needs no quotes in a flow mapping
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})  # would be something else than text

Decide = Callable[[Sequence[ExpectedFailure]], judge.Decision]
"""Judges a cell as if these were expected failures of it too."""


@dataclass(frozen=True, order=True)
class Known:
    """A promise (*check*) that a cell is known to break in that *place*; *place* "" is any."""

    scenario: str
    strategy: str
    fault: str
    check: str
    place: str = ""
    because: str = field(default="", compare=False)

    @property
    def cell(self) -> Key:
        return self.scenario, self.strategy, self.fault

    def __str__(self) -> str:
        where = f"{self.check} ({self.place})" if self.place else self.check
        return f"{self.strategy} x {self.fault} of {self.scenario}: {where}"

    @property
    def line(self) -> str:
        """As it stands in the file."""
        said = {"place": self.place, "because": self.because}
        values = {**{key: getattr(self, key) for key in _KEYS}, **{key: text for key, text in said.items() if text}}
        return f"- {{{', '.join(f'{key}: {_quoted(text)}' for key, text in values.items())}}}"


@dataclass(frozen=True)
class Baseline:
    """The *known* failures in the file *path*.

    *strict*: each of them must still happen. *learns*: new ones are added.
    """

    path: Path
    known: tuple[Known, ...] = ()
    strict: bool = False
    learns: bool = False

    def accepted(self, broke: Iterable[Known]) -> dict[Known, Known] | None:
        """Return which known failure accepts each of *broke*; None if one of them is new."""
        by_place = {(each.cell, each.check, each.place): each for each in self.known}
        found: dict[Known, Known] = {}
        for each in broke:
            exact = by_place.get((each.cell, each.check, each.place))
            match = exact or by_place.get((each.cell, each.check, "")) or (each if self.learns else None)
            if match is None:
                return None
            found[each] = match
        return found

    def new(self, broke: Iterable[Known]) -> list[Known]:
        """Return those of *broke* that are not known."""
        return [each for each in broke if self.accepted([each]) is None]

    def judged(self, result: CellResult, runs: Sequence[RunResult], decide: Decide) -> CellResult:
        """Return *result*, which did not pass, with what is *known* of it if that is all there is to say against it.

        Args:
            decide: judges the cell as if also the given failures were expected.
        """
        broke = list(broken(runs))
        if result.passed or not broke:
            return result
        found = self.accepted(broke)
        if found is None:
            new = "; ".join(f"{each.check}: {each.place}" for each in self.new(broke))
            some = len(self.new(broke)) < len(broke)
            return msgspec.structs.replace(result, why=f"{result.why}; not in the baseline: {new}") if some else result
        checks = tuple(sorted({each.check for each in broke}))
        if not decide([ExpectedFailure("", "", (), checks, "known")]).passed:
            return result  # there is more: something proves nothing, or was unexpectedly kept
        places: dict[str, list[str]] = {}
        for each in found.values():
            places.setdefault(each.check, []).append(each.place)
        known = {check: tuple(sorted(set(some))) for check, some in sorted(places.items())}
        reasons = "; ".join(dict.fromkeys(each.because for each in found.values() if each.because))
        why = f"known: {result.why}{f' ({reasons})' if reasons else ''}"
        return msgspec.structs.replace(result, known=known, why=why)

    def gone(self, cells: Iterable[CellResult], runs: Iterable[RunResult]) -> list[Known]:
        """Return the known failures that did not happen, of those of *cells* that were judged by all of their runs."""
        by_cell: dict[Key, list[RunResult]] = {}
        for run in runs:
            by_cell.setdefault(run.key, []).append(run)
        judged = {
            cell.key
            for cell in cells
            if cell.runs and not cell.skipped and not cell.missing and cell.verdict not in _PROVES_NOTHING
        }
        found: list[Known] = []
        for each in self.known:
            if each.cell in judged:
                broke = list(broken(by_cell.get(each.cell, ())))
                same = any(one.check == each.check and each.place in ("", one.place) for one in broke)
                found += [] if same else [each]
        return found

    def learned(self, cells: Iterable[CellResult], runs: Iterable[RunResult]) -> Baseline:
        """Return what is known after *cells* with their *runs*: what they broke, and as before of all other cells.

        Only cells that failed for nothing else count as known; the reasons that somebody wrote are kept.
        """
        cells = list(cells)
        asked = {cell.key for cell in cells if cell.runs and not cell.skipped and not cell.missing}
        proved = {cell.key for cell in cells if cell.key in asked and cell.known}
        fresh = {each for run in runs if run.key in proved for each in broken([run])}
        kept = {each for each in self.known if each.cell not in asked or self._still(each, fresh)}
        covered = {(each.cell, each.check) for each in kept if not each.place}
        known = kept | {each for each in fresh - kept if (each.cell, each.check) not in covered}
        return Baseline(self.path, tuple(sorted(known)), self.strict, self.learns)

    def _still(self, known: Known, fresh: Iterable[Known]) -> bool:
        """Tell whether *known* is among *fresh*, or stands for any place of one."""
        return any((known.cell, known.check) == (e.cell, e.check) and known.place in ("", e.place) for e in fresh)

    def text(self) -> str:
        """Return the file: sorted, a line for each, so that a change is a line in a diff."""
        strict = "strict: true\n" if self.strict else ""
        lines = "".join(f"{each.line}\n" for each in sorted(self.known))
        return f"{HEAD}version: {VERSION}\n{strict}known:{f'{chr(10)}{lines}' if lines else f' []{chr(10)}'}"


def broken(runs: Iterable[RunResult]) -> dict[Known, None]:
    """Return what *runs* broke and their scenario does not expect, each once, in order."""
    found: dict[Known, None] = {}
    for run in runs:
        for check in sorted(judge.unexpected(run)):
            verdict = run.checks.get(check)
            found[Known(*run.key, check, causes.place(verdict.finding) if verdict else "")] = None
    return found


def read(path: Path, *, learns: bool = False) -> Baseline:
    """Return the baseline in the file *path*; ScenarioError tells each problem with its line.

    Args:
        learns: the file is going to be written, and need not be there.
    """
    from chaos.scenario.parse import parse
    from chaos.scenario.positions import Problems

    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if learns:
            return Baseline(path, learns=True)
        raise ScenarioError(f"{path}: no such file; --chaos-write-baseline writes it") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read: {getattr(error, 'strerror', '') or 'not UTF-8'}") from None
    problems = Problems(path, text)
    tree = parse(text, problems)
    problems.raise_if_any()
    if not isinstance(tree, dict) or tree.get("version") != VERSION:
        raise ScenarioError(f"{path}: a baseline begins with 'version: {VERSION}'")
    for key in tree.keys() - {"version", "known", "strict"}:
        problems.add((key,), f"unknown field {key!r}; a baseline has version, known and strict", key=True)
    if not isinstance(strict := tree.get("strict", False), bool):
        problems.add(("strict",), "strict is true or false")
    items = tree.get("known")
    if not isinstance(items, list):
        problems.add(("known",), "known is a list with an entry for each failure")
        items = []
    found = [_known(item, ("known", number), problems) for number, item in enumerate(items)]
    problems.raise_if_any()
    return Baseline(path, tuple(each for each in found if each), bool(strict), learns)


def _known(item: object, loc: tuple[str, int], problems: object) -> Known | None:
    from chaos.scenario.positions import Problems

    assert isinstance(problems, Problems)
    if not isinstance(item, Mapping):
        problems.add(loc, f"an entry is a mapping with {', '.join(_KEYS)} and, if you like, place and because")
        return None
    for key in item.keys() - {*_KEYS, "place", "because"}:
        problems.add((*loc, key), f"unknown field {key!r}; an entry has {', '.join(_KEYS)}, place, because", key=True)
    for key, value in item.items():
        if not isinstance(value, str):
            problems.add((*loc, key), f"{key} is a text; put it in quotes")
    if missing := [key for key in _KEYS if key not in item]:
        problems.add(loc, f"missing: {', '.join(missing)}")
        return None
    return Known(**{str(key): str(value) for key, value in item.items() if key in (*_KEYS, "place", "because")})


def _quoted(text: str) -> str:
    """Return *text* as a value of a flow mapping: as it is where that is safe."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS and ": " not in text:
        return text
    said = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in said)
