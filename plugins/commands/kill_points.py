"""`pytest-chaos kill-points`: see `chaos.plugins.kill_points`."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "crash durable runtimes at each point around an effect; print the duplicates and the losses"
EPILOG = "exit codes: 0 done; 1 a fault missed where it should have hit; 2 wrong input; 130 interrupted"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--runtime", default="", metavar="NAME[,NAME]", help="only these columns, such as 'DBOS'")
    parser.add_argument("--point", default="", metavar="NAME[,NAME]", help="only these rows, such as 'in recovery'")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run with its findings to FILE")
    parser.add_argument("--seed", type=int, default=2026, metavar="N", help="default: 2026, so that two runs are alike")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at a time; default: 2")
    parser.add_argument("--servers", default="", metavar="NAME=ADDRESS[,...]", help="as --chaos-servers of pytest")


def run(options: argparse.Namespace) -> int:
    """Carry out the command."""
    from chaos.plugins import kill_points

    return kill_points.run(options)
