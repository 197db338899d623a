"""`pytest-chaos check`: scenarios are read as `pytest --chaos` would read them, and nothing is run.

The JSON format, version 1: `v`; `files`, each with `file`, `ok` and `scenario`, its name where it could be read; and
`problems`, each with `file`, `line` and `column` (from 1; 0 where it is a matter of the whole file), `code` (see
`pytest-chaos explain`) and `message`. Readers ignore fields that they do not know.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from chaos.plugins.commands import OK, WRONG_INPUT

if TYPE_CHECKING:
    from chaos.errors import Problem, ScenarioError

HELP = "check scenarios without running them: all mistakes at once, each with file:line:column"
EPILOG = """A folder means all *.chaos.yaml files in it and below; - means standard input.
--format github prints annotations for GitHub Actions, json one object: {"v": 1, "files": [{"file", "ok", "scenario"}],
"problems": [{"file", "line", "column", "code", "message"}]}.
exit codes: 0 all can be run; 2 something is wrong, or there is nothing to check"""

VERSION = 1  # of the JSON format
STDIN, STDIN_NAME = "-", "<stdin>"
IGNORED = ("node_modules", "site-packages")  # and what begins with a dot; pytest looks into neither by default
FORMATS = ("text", "github", "json")


class Checked(NamedTuple):
    """A file that was read: the name of its *scenario*, or its *problems*."""

    file: str
    scenario: str
    problems: tuple[Problem, ...]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("files", nargs="+", metavar="FILE|FOLDER", help="or - for standard input")
    parser.add_argument("--format", choices=FORMATS, default="text", help="default: text")


def run(options: argparse.Namespace) -> int:
    """Check every file before giving up; all that is wrong is told in one pass."""
    checked = [_checked(name) for given in options.files for name in _expanded(given)]
    if options.format == "json":
        print(_json(checked))
    else:
        for one in checked:
            _print(one, options.format)
    return WRONG_INPUT if any(one.problems for one in checked) else OK


def _expanded(given: str) -> Iterator[str]:
    """Yield *given*, or the scenarios below it if it is a folder; itself if that has none, which is a mistake."""
    from chaos.plugins.settings import SUFFIX

    folder = Path(given)
    if given == STDIN or not folder.is_dir():
        yield given
        return
    found = [path for path in sorted(folder.rglob(f"*{SUFFIX}")) if not _ignored(path.relative_to(folder))]
    yield from map(str, found or [folder])


def _ignored(path: Path) -> bool:
    return any(part.startswith(".") or part in IGNORED for part in path.parts)


def _checked(name: str) -> Checked:
    from chaos.errors import ScenarioError
    from chaos.plugins import tags
    from chaos.plugins.settings import SUFFIX
    from chaos.scenario import loader

    path = Path(STDIN_NAME if name == STDIN else name)
    try:
        if name == STDIN:
            scenario = loader.understand(path, loader.decoded(path, sys.stdin.buffer.read(loader.MAX_BYTES + 1)))
        elif path.is_dir():
            return _wrong(str(path), f"no *{SUFFIX} file is in this folder or below; name another one")
        elif not path.is_file():
            return _wrong(str(path), "no such file")
        else:
            scenario = loader.load(path)
        tags.marks(scenario)
    except ScenarioError as error:
        return Checked(str(path), "", error.problems or _whole(path, error))
    return Checked(str(path), scenario.name, ())


def _wrong(file: str, message: str) -> Checked:
    from chaos.errors import Kind, Problem

    return Checked(file, "", (Problem(file, 0, 0, message, Kind.UNREADABLE),))


def _whole(path: Path, error: ScenarioError) -> tuple[Problem, ...]:
    """Return an *error* that names no place as a problem of the file."""
    from chaos.errors import Problem

    return (Problem(str(path), 0, 0, str(error)),)


def _print(one: Checked, format_: str) -> None:
    """Print what is wrong, on standard output where GitHub reads it, or that nothing is."""
    from chaos import codes

    for problem in one.problems:
        if format_ == "github":
            print(annotation(problem))
        else:
            print(problem.text(codes.of_problem(problem)), file=sys.stderr)
    if not one.problems:
        print(f"{one.file}: ok")


def annotation(problem: Problem) -> str:
    """Return *problem* as an annotation of GitHub Actions, with the file's path from the top of the repository."""
    from chaos import codes
    from chaos.plugins import github

    file = github.from_root(Path(problem.file)) if problem.file != STDIN_NAME else STDIN_NAME
    place = {"line": str(problem.line), "col": str(problem.column)} if problem.line else {}
    return github.command("error", {"file": file, **place, "title": codes.of_problem(problem)}, problem.message)


def _json(checked: Sequence[Checked]) -> str:
    import json

    from chaos import codes

    problems = [
        {
            "file": problem.file,
            "line": problem.line,
            "column": problem.column,
            "code": codes.of_problem(problem),
            "message": problem.message,
        }
        for one in checked
        for problem in one.problems
    ]
    files = [{"file": one.file, "ok": not one.problems, "scenario": one.scenario} for one in checked]
    return json.dumps({"v": VERSION, "files": files, "problems": problems}, indent=2)
