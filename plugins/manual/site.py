"""The site's navigation: every page is in it, so each page of a code gets its line in `zensical.toml`."""

from __future__ import annotations

from pathlib import Path

FILE = "zensical.toml"
CODES = "codes"
BEGIN = "      # Generated, a line for each page of docs/codes:\n"
END = "      # ---\n"


def navigation(config: str, docs: Path) -> str:
    """Return the text of the site's configuration with a line for each page of a code below *docs*."""
    before, _, rest = config.partition(BEGIN)
    _, _, after = rest.partition(END)
    pages = sorted(page.name for page in (docs / CODES).glob("*.md"))
    lines = [f'      {{ "{name.removesuffix(".md")}" = "{CODES}/{name}" }},\n' for name in pages]
    return "".join((before, BEGIN, *lines, END, after))
