"""`llms.txt`: all pages of the documentation, for machines that read them (https://llmstxt.org)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

FILE = "llms.txt"

SUMMARY = """\
# pytest-chaos

> Recovery testing for long-running AI agents. `pytest --chaos` runs an agent once without a crash, then breaks it for
> real (SIGKILL, OOM kill, eviction, rate limits, damaged checkpoints), lets it recover, and compares state, files,
> processes, environment, external effects and goal with the crash-free run.

Pages are Markdown; paths are relative to this file. A scenario is YAML, checked by `pytest-chaos check FILE`."""

SECTIONS = (
    ("Start", "."),
    ("How to", "how-to"),
    ("Explanation", "explanation"),
    ("Reference", "reference"),
    ("Optional", "codes"),  # by the format's rule: what may be left out where the context is short
)


def text(folder: Path) -> str:
    """Return the list of all pages in *folder*, each with its first sentence."""
    sections = [(title, [_line(folder, page) for page in _pages(folder / name)]) for title, name in SECTIONS]
    return "\n\n".join((SUMMARY, *(f"## {title}\n\n" + "\n".join(lines) for title, lines in sections if lines))) + "\n"


def _pages(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.glob("*.md"), key=lambda page: (page.name != "index.md", page.name))


def _line(folder: Path, page: Path) -> str:
    title, about = described(page.read_text(encoding="utf-8"))
    return f"- [{title}]({page.relative_to(folder).as_posix()})" + (f": {about}" if about else "")


def described(page: str) -> tuple[str, str]:
    """Return the title of *page* and the first sentence of its first paragraph, as plain text."""
    title = re.search(r"^# (.+)$", page, re.MULTILINE)
    blocks = (block.strip() for block in page.split("\n\n"))
    paragraph = next((block for block in blocks if re.match(r"[A-Za-z0-9`\[*]", block) and block[:2] != "* "), "")
    plain = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
    first = re.match(r".*?[.:?](?=\s|$)", plain)
    return (title[1].replace("`", "") if title else "", first[0].rstrip(":") if first else plain)
