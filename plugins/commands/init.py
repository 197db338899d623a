"""`pytest-chaos init`: the first scenario, and the job for CI, of the project in a folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.plugins.commands import OK

if TYPE_CHECKING:
    from chaos.plugins.starting.project import Project

HELP = "write a first scenario and a CI job for the project in this folder"
EPILOG = """It says what it found, and why it writes what it writes. A file that is there is kept, but with --force.
exit codes: 0 done; 2 the folder cannot be read or written"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("folder", type=Path, nargs="?", default=Path(), metavar="FOLDER", help="default: this one")
    parser.add_argument("-n", "--dry-run", action="store_true", help="print what would be written, and write nothing")
    parser.add_argument("--force", action="store_true", help="replace files of the same names")


def run(options: argparse.Namespace) -> int:
    """Find, write, and say what comes next."""
    from chaos.errors import HarnessError
    from chaos.plugins.starting import files, project

    root: Path = options.folder
    if not root.is_dir():
        raise HarnessError(f"{root}: no such folder; name that of your project")
    found = project.find(root)
    print("\n".join(_found(found)))
    for planned in files.plan(found):
        path = root / planned.path
        if path.exists() and not options.force:
            print(f"exists   {planned.path}: left as it is; --force replaces it")
            continue
        print(f"{'would write' if options.dry_run else 'wrote'}  {planned.path}: {planned.why}")
        if options.dry_run:
            print(f"\n{planned.text}")
        else:
            _write(path, planned.text)
    print("\n".join(_next(found, files.SCENARIO)))
    return OK


def _found(project: Project) -> list[str]:
    framework = project.framework
    seen = f"{framework.name} ({project.evidence})" if project.evidence else "none of those that are known"
    lines = [f"found    framework: {seen}"]
    if project.others:
        lines.append(f"         also there: {', '.join(project.others)}; the first one decides how an agent recovers")
    if project.other_ci:
        lines.append(f"         {project.other_ci}: no job is written for it; the README has what one has to run")
    return lines


def _write(path: Path, text: str) -> None:
    from chaos.errors import HarnessError

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HarnessError(f"{path}: cannot be written ({error.strerror}); mend that, and run it again") from None


def _next(project: Project, name: str) -> list[str]:
    from chaos.plugins.starting import files

    lines = [f"next     pytest --chaos {project.tests / name}"]
    _, note = ("", "") if project.has_chaos or project.other_ci else files.requirement()
    if note:
        lines.append(f"to do    in {files.WORKFLOW}: {note}")
    if (project.root / ".pre-commit-config.yaml").exists():
        lines.append(
            "to do    in .pre-commit-config.yaml: - {repo: local, hooks: [{id: pytest-chaos-check, name: scenarios, "
            "language: system, entry: pytest-chaos check, files: '\\.chaos\\.yaml$'}]}"
        )
    return lines
