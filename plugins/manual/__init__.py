"""The reference part of the documentation, generated: from the JSON Schema, docstrings, options and result structs.

`python -m chaos.plugins.manual docs` writes it for whatever is installed here, other people's plug-ins too. Nothing
in these pages is written by hand, so nothing in them can be out of date: `tests/docs` compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def pages() -> Mapping[str, str]:
    """Return the text of every generated page by its path below the documentation's folder."""
    from chaos.plugins.manual import command_line, failure_codes, options, plugs, result_files, scenario

    return {
        "reference/scenario.md": scenario.page(),
        "reference/faults.md": plugs.faults(),
        "reference/strategies.md": plugs.strategies(),
        "reference/checks.md": plugs.checks(),
        "reference/explorers.md": plugs.explorers(),
        "reference/targets.md": plugs.targets(),
        "reference/options.md": options.page(),
        "reference/command-line.md": command_line.page(),
        "reference/results.md": result_files.page(),
        "reference/codes.md": failure_codes.page(),
    }


def write(folder: Path) -> list[Path]:
    """Write the generated pages, the list of all pages for machines, the navigation; return what differed before."""
    from chaos.plugins.manual import listing, site

    changed = [path for name, text in pages().items() if _put(path := folder / name, text)]
    if _put(path := folder / listing.FILE, listing.text(folder)):
        changed.append(path)
    config = folder.parent / site.FILE
    if config.exists() and _put(config, site.navigation(config.read_text(encoding="utf-8"), folder)):
        changed.append(config)
    return changed


def _put(path: Path, text: str) -> bool:
    """Write *text* to *path*, and tell whether that was something new."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return True
