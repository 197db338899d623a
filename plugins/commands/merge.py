"""`pytest-chaos merge`: see `chaos.plugins.merging`."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "make one campaign of the results folders of several machines"
EPILOG = "exit codes: 0 all as promised; 1 something failed, is missing or was not proved; 2 not of one campaign"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "folders", type=Path, nargs="+", metavar="DIR", help="a results folder, finished or interrupted"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="the folder to make")
    parser.add_argument("--history", type=Path, metavar="FILE", help="add a line to it, as --chaos-history of pytest")
    parser.add_argument(
        "--fail-on", action="append", default=[], metavar="EXPR", help="may be repeated, as --chaos-fail-on of pytest"
    )


def run(options: argparse.Namespace) -> int:
    """Carry out the command."""
    from chaos.plugins import merging

    return merging.run(options)
