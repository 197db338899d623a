"""`pytest-chaos scenarios`: where the scenarios of the package are."""

from __future__ import annotations

import argparse
from pathlib import Path

from chaos.plugins.commands import OK

HELP = "print the folder of the scenarios that come with the package"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: none."""


def folder() -> Path:
    """Return the folder of the scenarios that come with the package."""
    import chaos

    return Path(chaos.__file__).parent / "scenarios"


def run(options: argparse.Namespace) -> int:
    """Print the folder."""
    print(folder())
    return OK
