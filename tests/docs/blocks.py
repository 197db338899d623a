"""The fenced blocks of a page, and what the page says about running them.

The info string has the language, and `title="FILE"` where a block is a file (`append` adds to it). A comment line
before the fence says more: `<!-- exit 1 -->` is how the command ends, `<!-- not run: REASON -->` why no test runs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = ("reference", "codes")  # written by the generator, and pages with their own test

FENCE = re.compile(r"^( *)(`{3,})(.*)\n((?:.*\n)*?)\1\2 *$", re.MULTILINE)
REMARK = re.compile(r"<!-- ((?:(?!-->).)*) -->\n *$", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One block: *remark* is the comment right before it, *line* where it begins."""

    page: Path
    line: int
    language: str
    title: str
    append: bool
    remark: str
    text: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def left_out(self) -> str:
        """Why it is not run; "" if it is."""
        return self.remark.removeprefix("not run: ") if self.remark.startswith("not run: ") else ""

    @property
    def exit_code(self) -> int:
        return int(self.remark.removeprefix("exit ")) if self.remark.startswith("exit ") else 0


def pages() -> list[Path]:
    """Return the pages that are written by hand: the README, the changelog's neighbours, and the documentation."""
    written = [page for page in DOCS.rglob("*.md") if page.relative_to(DOCS).parts[0] not in GENERATED]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(written)]


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of *page*, in order."""
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        indent, _, info, body = found.groups()
        language, *more = info.split(maxsplit=1)[:2] if info.strip() else [""]
        title = re.search(r'title="([^"]+)"', info)
        remark = REMARK.search(text[: found.start()])
        yield Block(
            page,
            text[: found.start()].count("\n") + 1,
            language,
            title[1] if title else "",
            "append" in "".join(more),
            remark[1] if remark else "",
            re.sub(rf"^{indent}", "", body, flags=re.MULTILINE),
        )
