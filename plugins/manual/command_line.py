"""The page on the command line, from its own parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from chaos.plugins import command_line
from chaos.plugins.manual.markdown import document, sentence, table


def page() -> str:
    """Return the page."""
    parser = command_line._parser()
    sections = [section for name, text, command in commands(parser) for section in _section(name, text, command)]
    return document(
        "Command line",
        f"`{parser.prog}` and `python -m chaos` are the same. {parser.description}",
        sentence(parser.epilog or "") + "." if parser.epilog else "",
        table(("command", "what it does"), ((f"[`{name}`](#{name})", text) for name, text, _ in commands(parser))),
        *sections,
    )


def commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Yield name, one sentence, and parser of each command."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                yield choice.dest, sentence(choice.help or ""), action.choices[choice.dest]


def _section(name: str, text: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"## {name}"
    yield f"`{_usage(parser)}`"
    yield f"{text}. {parser.description or ''}".strip()
    yield table(("argument", "meaning"), (_row(each) for each in parser._actions if each.dest != "help"))
    yield sentence(parser.epilog) + "." if parser.epilog else ""


def _usage(parser: argparse.ArgumentParser) -> str:
    """Return the usage in one line, however wide the terminal is."""
    return " ".join(parser.format_usage().removeprefix("usage: ").split())


def _row(action: argparse.Action) -> tuple[str, str]:
    names = ", ".join(action.option_strings)
    takes = action.metavar or (action.dest if action.nargs != 0 else "")
    shown = takes if isinstance(takes, str) else " ".join(takes)
    if action.choices and action.option_strings:
        shown = "|".join(map(str, action.choices))
    return f"`{f'{names} {shown}'.strip()}`", sentence(str(action.help or ""))
