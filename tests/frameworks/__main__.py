"""Framework x property x fault: `python -m tests.frameworks langgraph [--version published]`, or `--all` for the table.

Each is a small agent of that framework at an exact version that books and pays, and scenarios that any user could have
written; the packages are installed in environments of their own, the model and the services are the harness's.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.frameworks.matrix import FAULTS, NO_FAULT, SIDES, Framework, Row, frameworks, tried

PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"
BEGIN, END = "<!-- the table -->\n", "<!-- end of the table -->\n"
HEAD = (
    f"| framework | property | {NO_FAULT} | {' | '.join(f'`{fault}`' for fault in FAULTS)} | seen |\n"
    + "|---" * 8
    + "|\n"
)


def main(arguments: Sequence[str]) -> int:
    """Try what is asked for, print its rows as they come, and put them in the page; return 0."""
    known = {framework.id: framework for framework in frameworks()}
    parser = argparse.ArgumentParser("python -m tests.frameworks", description=__doc__)
    parser.add_argument("name", nargs="*", choices=[*known, []], help="of the framework")
    parser.add_argument(
        "--all", action="store_true", help="try all of them, those of published findings in both versions"
    )
    parser.add_argument("--version", choices=SIDES, default="newest", help="which of its two sets of versions")
    given = parser.parse_args(arguments)
    if not given.name and not given.all:
        parser.error(f"name a framework ({', '.join(known)}), or --all")
    chosen = [(known[name], given.version) for name in given.name]
    print(HEAD, end="")
    for framework, side in list(sides(known.values())) if given.all else chosen:
        lines = rows(framework, side)
        print("".join(lines), end="", flush=True)
        PAGE.write_text(merged(PAGE.read_text(), lines))
    return 0


def sides(known: Sequence[Framework]) -> Iterator[tuple[Framework, str]]:
    """Yield each framework with its newest versions, and with the published ones where those are others."""
    for framework in known:
        for side in SIDES:
            if side == "newest" or framework.pins(side) != framework.pins("newest"):
                yield framework, side


def rows(framework: Framework, side: str) -> list[str]:
    """Return the lines of the table about *framework*, of which something may not have been possible."""
    try:
        seen = tried(framework, side)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return [f"| {label(framework, side)} | all |{' not tried |' * 5} {error} |\n"]
    return [line(label(framework, side), row) for row in seen]


def label(framework: Framework, side: str) -> str:
    """Return the package that the framework is, with its version."""
    return f"[{framework.pins(side)[0].replace('==', ' ')}]({framework.report})"


def line(name: str, row: Row) -> str:
    """Return one line; where nothing was tried in a cell, the last one says why, or the text above the table."""
    cells = [row.cells.get(column, "–") for column in (NO_FAULT, *FAULTS)]
    seen = " ".join(row.finding.split()).replace("|", "\\|")
    return f"| {name} | {row.property.name} | {' | '.join(cells)} | {seen} |\n"


def merged(page: str, lines: Sequence[str]) -> str:
    """Return *page* with *lines* in place of those of the same framework and version in its table, in order."""
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    new = lines[0].split(" | ")[0]
    old = [one for one in table.removeprefix(HEAD).splitlines(keepends=True) if one.split(" | ")[0] != new]
    groups = sorted({one.split(" | ")[0] for one in (*old, *lines)})
    body = [one for group in groups for one in (*old, *lines) if one.split(" | ")[0] == group]
    return f"{before}{BEGIN}{HEAD}{''.join(body)}{END}{after}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
