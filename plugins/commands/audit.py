"""`pytest-chaos audit`: see `chaos.plugins.audit`."""

from __future__ import annotations

import argparse

HELP = "look for rows of a stored LangGraph thread that are missing, doubled, unlinked or unreadable"
EPILOG = """Reads only, and says what cannot be seen from what is stored.
exit codes: 0 nothing found; 1 damage; 2 no such store or thread, or no thread named"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("place", metavar="PATH|URL", help="a file of SqliteSaver, or postgresql://USER@HOST/DATABASE")
    parser.add_argument("thread", metavar="THREAD", nargs="?", help="its thread_id; without it, the threads are listed")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def run(options: argparse.Namespace) -> int:
    """Carry out the command."""
    from chaos.plugins import audit

    return audit.run(options)
