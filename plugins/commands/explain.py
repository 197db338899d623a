"""`pytest-chaos explain CODE`: what a failure means, and what to do; without CODE, all codes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from chaos.plugins.commands import OK

HELP = "say what the code of a failure means, what causes it and what to do"
EPILOG = "without CODE all codes are listed; with a group (check, verdict, scenario, harness) those of the group"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    argument = parser.add_argument("code", nargs="?", metavar="CODE", help="as in check.effects")
    argument.completer = _complete  # type: ignore[attr-defined]  # argcomplete's, which finds it by this name


def _complete(prefix: str, **_: object) -> Iterable[str]:
    from chaos import codes

    return codes.all()


def run(options: argparse.Namespace) -> int:
    """Print the page of the code, or a list."""
    from chaos import codes

    known = codes.all()
    groups = list(dict.fromkeys(code.partition(".")[0] for code in known))
    if options.code and options.code not in groups:
        print(codes.page(options.code).text.rstrip())
        return OK
    shown = [code for code in known if options.code in (None, code.partition(".")[0])]
    width = max(map(len, shown))
    for code in shown:
        print(f"{code.ljust(width)}  {codes.page(code).title}")
    if not options.code:
        print("\n`pytest-chaos explain CODE` says what it means, what was compared, the usual causes and what to do.")
    return OK
