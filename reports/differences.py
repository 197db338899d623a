"""How the end of a run differs from the crash-free one, as rows of what was wanted and what was got."""

from __future__ import annotations

import difflib
import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from chaos.events.seen import FileEntry, Observation, ProcessEntry
from chaos.mask import Json, masked
from chaos.record import Record
from chaos.reports.text import clip, number, plural

NOTHING = "–"
MAX_ROWS = 2000
"""Rows of one table: a state of which everything is different says no more with another thousand."""

ALIGNED_ITEMS = 400
"""Items of a list up to which those that are equal are looked for; the search is quadratic."""

SHOWN_DIGEST = 12
SHOWN_VALUE = 200  # characters of a JSON value
CONTEXT_LINES = 2  # of a text diff


@dataclass(frozen=True)
class Row:
    """One thing that differs. *note* says how in a word or two."""

    what: str
    wanted: str
    got: str
    note: str = ""

    @property
    def line(self) -> str:
        """The row as plain text."""
        return f"{self.what}: {self.note + ', ' if self.note else ''}wanted {self.wanted}, got {self.got}"


@dataclass(frozen=True)
class Table:
    """What differs of one kind ("state", "files", ...): *title* says what was compared."""

    kind: str
    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class TextDiff:
    """The lines in which a text file differs from the reference's."""

    path: str
    lines: tuple[str, ...]


def tables(run: Record, reference: Record) -> tuple[Table, ...]:
    """Return the tables that have rows: of the state, the files, the processes and the environment, in this order."""
    found = [Table("state", title, rows) for title, rows in _states(run, reference)]
    seen, wanted = run.final_observation, reference.final_observation
    if seen is not None and wanted is not None:
        found += [
            Table("files", "Files at the end", tuple(_files(seen, wanted))),
            Table("processes", "Processes at the end", tuple(_processes(seen, wanted))),
            Table("environment", "Environment at the end", tuple(_environment(seen, wanted))),
        ]
    return tuple(table for table in found if table.rows)


def texts(run: Record, reference: Record) -> tuple[TextDiff, ...]:
    """Return how small text files differ at the end; files whose content was not kept are left out."""
    if run.final_observation is None or reference.final_observation is None:
        return ()
    here, there = (_by_path(seen.files) for seen in (run.final_observation, reference.final_observation))
    found = []
    for path in sorted(here.keys() & there.keys()):
        one, other = here[path].text, there[path].text
        if one != other and one and other:
            found.append(TextDiff(path, text_diff(one, other)))
    return tuple(found)


def text_diff(got: str, wanted: str) -> tuple[str, ...]:
    """Return the unified diff from *wanted* to *got*."""
    lines = difflib.unified_diff(
        wanted.splitlines(), got.splitlines(), "reference", "run", n=CONTEXT_LINES, lineterm=""
    )
    return tuple(lines)


def json_rows(got: Json, wanted: Json, path: str = "$") -> Iterator[Row]:
    """Yield the places in which two JSON values differ, by their paths; equal items of lists are aligned."""
    if isinstance(got, dict) and isinstance(wanted, dict):
        for key in sorted(got.keys() | wanted.keys()):
            where = f"{path}.{key}"
            if key not in got:
                yield Row(where, shown(wanted[key]), NOTHING, "missing")
            elif key not in wanted:
                yield Row(where, NOTHING, shown(got[key]), "extra")
            else:
                yield from json_rows(got[key], wanted[key], where)
    elif isinstance(got, list) and isinstance(wanted, list):
        yield from _items(got, wanted, path)
    elif type(got) is not type(wanted) or got != wanted:  # 1, 1.0 and true are three
        yield Row(path, shown(wanted), shown(got))


def _items(got: Sequence[Json], wanted: Sequence[Json], path: str) -> Iterator[Row]:
    for tag, i1, i2, j1, j2 in _opcodes(got, wanted):
        if tag == "equal":
            continue
        both = min(i2 - i1, j2 - j1)
        for n in range(both):
            yield from json_rows(got[j1 + n], wanted[i1 + n], f"{path}[{i1 + n}]")
        for n in range(i1 + both, i2):
            yield Row(f"{path}[{n}]", shown(wanted[n]), NOTHING, "missing")
        for n in range(j1 + both, j2):
            yield Row(f"{path}[{n}]", NOTHING, shown(got[n]), "extra")


def _opcodes(got: Sequence[Json], wanted: Sequence[Json]) -> Sequence[tuple[str, int, int, int, int]]:
    if max(len(got), len(wanted)) > ALIGNED_ITEMS:
        return [("replace", 0, len(wanted), 0, len(got))]
    one, other = ([_canonical(item) for item in items] for items in (wanted, got))
    return difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()


def shown(value: Json) -> str:
    """Return a JSON value as it is written, cut."""
    return clip(_canonical(value), SHOWN_VALUE)


def _canonical(value: Json) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _states(run: Record, reference: Record) -> Iterator[tuple[str, tuple[Row, ...]]]:
    """Yield the state at the end and what another process read of the store, which is told only if it is another."""
    live: tuple[Row, ...] = ()
    if run.final_snapshot is not None and reference.final_snapshot is not None:
        live = _state_rows(run.final_state, reference.final_state, run)
        yield "State at the end", live
    if run.is_read_back and reference.is_read_back:
        stored = _state_rows(run.reloaded_state, reference.reloaded_state, run)
        if stored != live:
            yield "State that another process read from the store", stored


def _state_rows(got: Json, wanted: Json, run: Record) -> tuple[Row, ...]:
    changes = run.changes
    return tuple(islice(json_rows(masked(got, changes), masked(wanted, changes)), MAX_ROWS))


def _files(seen: Observation, wanted: Observation) -> Iterator[Row]:
    here, there = _by_path(seen.files), _by_path(wanted.files)
    for path in sorted(here.keys() | there.keys()):
        one, other = here.get(path), there.get(path)
        if one is None or other is None or _differs(one, other):
            yield Row(path, _file(other, one), _file(one, other), _note(one, other))
    repositories, right = ({each.path: each for each in look.repositories} for look in (seen, wanted))
    for path in sorted(repositories.keys() & right.keys()):
        got, want = repositories[path], right[path]
        if (got.head, got.log, got.status) != (want.head, want.log, want.status):
            yield Row(f"{path} (git)", _repository(want.log, want.status), _repository(got.log, got.status), "changed")


def _by_path(files: Sequence[FileEntry]) -> Mapping[str, FileEntry]:
    return {entry.path: entry for entry in files}


def _differs(one: FileEntry, other: FileEntry) -> bool:
    """Tell whether two entries differ. Not by size: the sandbox's own path is masked in the digest only."""
    return any(getattr(one, name) != getattr(other, name) for name in ("kind", "mode", "digest", "target"))


def _note(here: FileEntry | None, there: FileEntry | None) -> str:
    if here is None:
        return "missing"
    if there is None:
        return "extra"
    return "other content" if here.digest != there.digest else "other mode" if here.mode != there.mode else "changed"


def _file(entry: FileEntry | None, other: FileEntry | None) -> str:
    """Return size, mode and digest of *entry*; of a folder or a link what there is."""
    if entry is None:
        return NOTHING
    said = [entry.kind] if entry.kind != "file" or (other and other.kind != "file") else []
    said += [f"→ {entry.target}"] if entry.target else []
    said += [f"{number(entry.size)} bytes"] if entry.kind == "file" else []
    said += [f"{entry.mode:04o}"]
    said += [f"{entry.digest[:SHOWN_DIGEST]}…"] if entry.digest else []
    return ", ".join(said)


def _repository(log: Sequence[str], status: Sequence[str]) -> str:
    newest = clip(log[0][:SHOWN_DIGEST], SHOWN_DIGEST) if log else "none"
    return f"{plural(len(log), 'commit')}, newest {newest}, {plural(len(status), 'uncommitted change')}"


def _processes(seen: Observation, wanted: Observation) -> Iterator[Row]:
    here, there = (Counter(each.argv for each in look.processes) for look in (seen, wanted))
    for argv in sorted(here.keys() | there.keys()):
        got, want = (_running([each for each in look.processes if each.argv == argv]) for look in (seen, wanted))
        if got != want:
            note = "missing" if not here[argv] else "extra" if not there[argv] else "changed"
            yield Row(clip(shlex.join(argv), SHOWN_VALUE), want, got, note)


def _running(processes: Sequence[ProcessEntry]) -> str:
    if not processes:
        return "not running"
    ports = sorted(port for process in processes for port in process.ports)
    times = "runs" if len(processes) == 1 else f"runs {len(processes)} times"
    return f"{times}, listens on {', '.join(ports)}" if ports else times


def _environment(seen: Observation, wanted: Observation) -> Iterator[Row]:
    for argv in sorted({each.argv for each in wanted.processes} & {each.argv for each in seen.processes}):
        here, there = ([_surroundings(p) for p in look.processes if p.argv == argv] for look in (seen, wanted))
        odd, right = (sorted((Counter(a) - Counter(b)).elements()) for a, b in ((here, there), (there, here)))
        for got, want in zip(odd, right, strict=False):
            yield from _surrounded(clip(shlex.join(argv), SHOWN_VALUE), dict(got), dict(want))
    packages, expected = set(seen.packages), set(wanted.packages)
    for package in sorted(packages ^ expected):
        is_here, is_there = (("installed" if package in names else NOTHING) for names in (packages, expected))
        yield Row(f"package {package}", is_there, is_here, "missing" if package in expected else "extra")


def _surroundings(process: ProcessEntry) -> tuple[tuple[str, str], ...]:
    return (("working directory", process.cwd), *sorted(process.environment))


def _surrounded(name: str, got: Mapping[str, str], want: Mapping[str, str]) -> Iterator[Row]:
    for what in dict.fromkeys([*want, *got]):
        if got.get(what) != want.get(what):
            note = "missing" if what not in got else "extra" if what not in want else ""
            yield Row(f"{what} of {name}", want.get(what, NOTHING), got.get(what, NOTHING), note)
