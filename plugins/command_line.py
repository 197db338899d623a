"""The command line, `pytest-chaos` or `python -m chaos`. Campaigns are run by `pytest --chaos`.

Exit codes: 0 done; 1 something is not as promised or was not proved (each command's help says what); 2 the input is
wrong: the arguments, a scenario, a folder without results, or one of another campaign, a store or thread that is not
there; 130 interrupted. `demo` and `replay` run pytest, and end as it does.

Imports are inside the handlers: `--version` must not load the harness.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from chaos.plugins.commands import GROUPS, OK, WRONG_INPUT, module_of

INTERRUPTED = 130  # as shells report SIGINT
COMPLETING = "_ARGCOMPLETE"
"""Set by the code that `completion` prints: the shell asks what could come next."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with *arguments* and return its exit code."""
    from chaos.errors import ChaosError

    parser = _parser()
    if COMPLETING in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except ChaosError as error:
        print(_told(error), file=sys.stderr)
        return WRONG_INPUT
    except BrokenPipeError:  # `pytest-chaos table | head`
        sys.stderr.close()
        return OK
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _told(error: Any) -> str:
    """Return what *error* says, and how to read more, but for words that were typed wrongly."""
    from chaos import codes
    from chaos.errors import UnknownName

    if isinstance(error, UnknownName):
        return str(error)
    return f"{codes.told(error)}\n`pytest-chaos explain {codes.of_error(error)}` says what to do"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pytest-chaos",
        description="Recovery testing for long-running agents: really break them, prove that they come back. "
        "Campaigns are run by `pytest --chaos`.",
        epilog="`pytest-chaos COMMAND --help` says more. Exit codes: 0 done; 1 a promise was broken or not proved; "
        "2 wrong input; 130 interrupted.",
        formatter_class=_Grouped,
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    for names in GROUPS.values():
        for name in names:
            module = importlib.import_module(module_of(name))
            command = commands.add_parser(
                name,
                help=module.HELP,
                description=f"{module.HELP[:1].upper()}{module.HELP[1:]}.",
                epilog=getattr(module, "EPILOG", None),
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
            module.arguments(command)
            command.set_defaults(run=module.run)
    return parser


class _Grouped(argparse.HelpFormatter):
    """Shows the commands below the names of their groups."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=18)  # the longest name beside its help

    def _format_action(self, action: argparse.Action) -> str:
        if not isinstance(action, argparse._SubParsersAction):
            return super()._format_action(action)
        listed = {str(each.dest): each for each in action._get_subactions()}
        lines: list[str] = []
        for title, names in GROUPS.items():
            lines.append(f"{'' if not lines else chr(10)}  {title}:\n")
            self._indent()
            lines += [super(_Grouped, self)._format_action(listed[name]) for name in names]
            self._dedent()
        return "".join(lines)


class _Version(argparse.Action):
    """Prints the version; reading it takes as long as everything else, so only when asked."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"pytest-chaos {version('pytest-chaos')}")
        parser.exit(OK)
