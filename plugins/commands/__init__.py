"""The commands of `pytest-chaos`, one module each: HELP in a line, `arguments` and `run`; EPILOG where there is more.

Their modules are imported to print any help: what a command needs is imported when it runs.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

OK, BROKEN, WRONG_INPUT = 0, 1, 2
RESULTS = ".chaos"
REPORT = "report.html"

GROUPS: Mapping[str, tuple[str, ...]] = {
    "to begin with": ("demo", "init", "doctor", "selftest"),
    "scenarios": ("record", "check", "schema", "scenarios"),
    "what a campaign found": ("report", "table", "explain", "replay", "merge", "clean"),
    "measured": ("bench", "storage-tax", "kill-points", "audit"),
    "for the shell": ("completion",),
}
"""Every command, as `--help` shows them."""


def module_of(command: str) -> str:
    """Return the name of the module of *command*."""
    return f"{__name__}.{command.replace('-', '_')}"


def alone() -> dict[str, str]:
    """Return the environment of a pytest that loads no plug-in but those that are named to it.

    Others would reorder tests, or change how they end; and those that come with our dependencies take a second to load.
    """
    return {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def add_results(parser: argparse.ArgumentParser) -> None:
    """Add the results folder as the argument."""
    parser.add_argument(
        "results", type=Path, nargs="?", default=Path(RESULTS), metavar="RESULTS_FOLDER", help=f"default: {RESULTS}"
    )
