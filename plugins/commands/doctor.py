"""`pytest-chaos doctor`: see `chaos.plugins.doctor`."""

from __future__ import annotations

import argparse

HELP = "try what this machine can do, and name the remedy for what it cannot"
EPILOG = "exit codes: 0 the main job can run; 1 it cannot, and why"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument(
        "--clean", action="store_true", help="only remove our image from Docker, and what killed campaigns left there"
    )


def run(options: argparse.Namespace) -> int:
    """Carry out the command."""
    from chaos.plugins import doctor

    return doctor.run(options)
