"""What GitHub Actions shows of a campaign: a summary on the job's page, and errors at the scenario's lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from chaos.reports import markdown
from chaos.reports import matrix as matrices
from chaos.reports.cells import Cell
from chaos.reports.failure_text import codes_of_cell
from chaos.reports.text import clip, mask, plural
from chaos.results import Campaign

SUMMARY, ACTIONS, WORKSPACE = "GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS", "GITHUB_WORKSPACE"

SUMMARY_BYTES = 1024 * 1024
"""Of one step: GitHub drops the whole summary of a step that has more (docs, workflow commands)."""

ERRORS = 10
"""Annotations of one kind that GitHub shows of a step (docs, workflow commands)."""

CUT = "\n*{more} left out, for GitHub shows {limit} MiB of a step at most: they are in the report.*\n"


def tell(campaign: Campaign, closing: Sequence[str], report: str, write: Callable[[str], object]) -> None:
    """Write the summary of *campaign*, and its errors by *write*, a line each, where this is a job of GitHub's.

    Args:
        closing: what the gates say.
        report: where the report is.
    """
    if path := os.environ.get(SUMMARY):
        try:
            summarise(Path(path), markdown.sections(campaign, closing, report))
        except OSError as error:
            write(f"the summary cannot be written to {path}: {error.strerror}")
    if os.environ.get(ACTIONS) == "true":
        for line in errors(campaign, Path.cwd()):
            write(line)


def summarise(path: Path, sections: Sequence[str]) -> None:
    """Append *sections* to the file *path*, as many as there is room for; what is left out is said."""
    room = SUMMARY_BYTES - (path.stat().st_size if path.exists() else 0)
    text = "\n".join(sections)
    if len(text.encode()) + 1 > room:
        text = _cut(sections, room)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{text}\n" if text else "")


def _cut(sections: Sequence[str], room: int) -> str:
    """Return as many of *sections* as there is *room* for, in bytes, and how many there are more."""
    note = CUT.format(more=plural(len(sections), "section"), limit=SUMMARY_BYTES >> 20)
    left = room - len(note.encode()) - 2
    kept: list[str] = []
    for section in sections:
        left -= len(section.encode()) + 1
        if left < 0:
            break
        kept.append(section)
    if not kept and room < len(note.encode()) + 2:
        return ""
    note = CUT.format(more=plural(len(sections) - len(kept), "section"), limit=SUMMARY_BYTES >> 20)
    return "\n".join([*kept, note])


def errors(campaign: Campaign, folder: Path) -> Iterator[str]:
    """Yield a line for each cell that is not as promised, worst first, as many as GitHub shows; the rest in one more.

    Args:
        folder: that the scenarios' files are named from.
    """
    bad = matrices.of(campaign).bad
    files = {cell.key: cell.file for cell in campaign.plan}
    lines: dict[str, dict[str, int]] = {}
    for cell in bad[:ERRORS]:
        file = files.get((cell.column.scenario, cell.strategy, cell.column.fault), "")
        if file and file not in lines:
            lines[file] = _lines(folder / file)
        found = lines.get(file, {})
        line = found.get(cell.column.fault) or found.get(cell.strategy) or 1
        place = {"file": from_root(folder / file), "line": str(line)} if file else {}
        yield command("error", {**place, "title": f"{cell.name}: {cell.word}"}, _message(cell))
    if (more := len(bad) - ERRORS) > 0:
        names = ", ".join(cell.name for cell in bad[ERRORS : 2 * ERRORS])
        etc = " and others" if more > ERRORS else ""
        yield command("notice", {"title": "pytest-chaos"}, f"{plural(more, 'more cell')} not as promised: {names}{etc}")


def command(kind: str, properties: dict[str, str], message: str) -> str:
    """Return a workflow command of that *kind*, escaped as GitHub's own toolkit does it."""
    said = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{kind}{f' {said}' if said else ''}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _message(cell: Cell) -> str:
    run = cell.first_interesting
    broke = [(name, run.checks[name].finding) for name in run.broke if name in run.checks] if run else []
    lines = [cell.why or str(cell.verdict), *(f"{name}: {clip(finding)}" for name, finding in broke)]
    lines += [f"replay: {cell.replay}"] if cell.replay else []
    lines += [f"[{', '.join(codes_of_cell(cell))}]"]
    return mask("\n".join(lines))


def from_root(path: Path) -> str:
    """Return *path* from the top of the repository: what GitHub knows files by."""
    root = os.environ.get(WORKSPACE)
    return os.path.relpath(path, root) if root and path.resolve().is_relative_to(Path(root).resolve()) else str(path)


def _lines(path: Path) -> dict[str, int]:
    """Return the line, from 1, of each strategy and each fault in the scenario *path*, by name; none if it is none."""
    from chaos.scenario.parse import parse
    from chaos.scenario.positions import Problems

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    problems = Problems(path, text)
    tree = parse(text, problems)
    found: dict[str, int] = {}
    for section in ("strategies", "faults"):
        items = tree.get(section) if isinstance(tree, dict) else None
        for number, item in enumerate(items if isinstance(items, list) else ()):
            for name in _names(item):
                found[name] = problems.marks.find((section, number)).line + 1
    return found


def _names(item: object) -> Iterable[str]:
    """Return what an entry of a scenario may be called: a fault by name or kind, a strategy by name."""
    if isinstance(item, str):
        return (item,)
    if not isinstance(item, dict):
        return ()
    if "kind" in item:
        return (str(item.get("name") or item["kind"]),)
    return tuple(map(str, item))
