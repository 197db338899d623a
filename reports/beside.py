"""Evidence that is too large for the page: kept beside it, masked as the page is, with a link and a note."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaos.reports.text import mask, plural, size, slug

LIMIT_BYTES = 256 * 1024
"""Of one piece of evidence on the page; a larger one is for an editor, not for a browser."""

PAGE_BYTES = 6_000_000
"""Of all pieces on the page together: what comes later is beside it too, so that the page opens in a second."""

SHORT = 8_000  # characters shown of a piece that is beside the page: one line may be megabytes

PREFIX, SUFFIX = "evidence-", ".txt"


@dataclass(frozen=True)
class Piece:
    """Lines of evidence: the first ones (of a log the last), and the *rest*, either here or in the file *link*.

    *note* says how many lines the rest has and how large the file is; "" where there is no rest.
    """

    first: tuple[str, ...]
    rest: tuple[str, ...] = ()
    link: str = ""
    note: str = ""


@dataclass
class Beside:
    """Decides what comes on the page and gathers what comes beside it.

    Args:
        folder: what the folder beside the page is called.
    """

    folder: str
    files: dict[str, str] = field(default_factory=dict)
    _used: int = 0

    def piece(self, name: str, lines: Sequence[str], most: int, *, tail: bool = False) -> Piece:
        """Return *lines* with the first *most* of them to be shown at once; the last of them if *tail*.

        Args:
            name: what they are, a part of the file's name.
        """
        cut = max(len(lines) - most, 0) if tail else most
        first, rest = (lines[cut:], lines[:cut]) if tail else (lines[:cut], lines[cut:])
        first, rest = tuple(first), tuple(rest)
        whole = _bytes(lines)
        if whole <= LIMIT_BYTES and self._used + whole <= PAGE_BYTES:
            self._used += whole
            if not rest:
                return Piece(first)
            return Piece(first, rest, note=plural(len(rest), f"{'earlier' if tail else 'more'} line"))
        text = mask("\n".join(lines)) + "\n"
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
        file = f"{PREFIX}{slug(name)[:80]}-{digest}{SUFFIX}"
        self.files[file] = text
        shown = _shortened(first, SHORT if self._used + SHORT <= PAGE_BYTES else 0)
        self._used += _bytes(shown)
        return Piece(
            shown, link=f"{self.folder}/{file}", note=f"{plural(len(lines), 'line')}, {size(len(text.encode()))}"
        )


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write *files* into *folder*, in place of those of an earlier page; without any there is no folder.

    Raises:
        OSError: it cannot be written there.
    """
    for old in folder.glob(f"{PREFIX}*{SUFFIX}") if folder.is_dir() else ():
        if old.name not in files:
            old.unlink()
    if files:
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8", errors="replace")
    elif folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _bytes(lines: Sequence[str]) -> int:
    return sum(len(line.encode("utf-8", "replace")) + 1 for line in lines)


def _shortened(lines: Sequence[str], room: int) -> tuple[str, ...]:
    """Return the beginning of *lines*, at most *room* characters."""
    kept: list[str] = []
    for line in lines:
        if room <= 0:
            break
        kept.append(line[:room])
        room -= len(line)
    return tuple(kept)
