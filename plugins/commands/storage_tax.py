"""`pytest-chaos storage-tax`: see `chaos.plugins.storage_tax`."""

from __future__ import annotations

import argparse
from pathlib import Path

from chaos.plugins.commands import RESULTS

HELP = "measure what each strategy stores, writes and takes, N steps on"
EPILOG = "exit codes: 0 done; 1 a number proves nothing; 2 wrong input; 130 interrupted"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "scenarios", type=Path, nargs="*", metavar="SCENARIO", help="default: storage_tax* of those in the package"
    )
    default = Path(RESULTS, "storage-tax")  # below the results: it must not replace a campaign
    parser.add_argument("--out", type=Path, default=default, metavar="DIR", help=f"default: {default}")
    parser.add_argument(
        "--jobs", type=int, default=2, metavar="N", help="strategies at a time, each on a core; default: 2"
    )
    parser.add_argument("--seed", type=int, default=2026, metavar="N", help="default: 2026, so that two runs are alike")
    parser.add_argument("--strategy", default="", metavar="NAME[,NAME]", help="only these: names or labels")
    parser.add_argument("--servers", default="", metavar="NAME=ADDRESS[,...]", help="as --chaos-servers of pytest")


def run(options: argparse.Namespace) -> int:
    """Carry out the command."""
    from chaos.plugins import storage_tax

    return storage_tax.run(options)
