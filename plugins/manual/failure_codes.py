"""The page that lists all codes of failures; each has a page of its own, which `pytest-chaos explain CODE` prints."""

from __future__ import annotations

from itertools import groupby

from chaos import codes
from chaos.plugins.manual.markdown import document, table

INTRODUCTION = """\
Each kind of failure has a code that says what it is. The terminal and the report print it, and
`pytest-chaos explain CODE` prints its page."""


def page() -> str:
    """Return the page."""
    sections = []
    for group, found in groupby(sorted(codes.all()), key=lambda code: code.partition(".")[0]):
        rows = [(f"[`{code}`](../codes/{code}.md)", codes.page(code).title) for code in found]
        sections += [f"## {group}", table(("code", "title"), rows)]
    return document("Codes of failures", INTRODUCTION, *sections)
