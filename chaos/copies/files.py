"""Copies of a folder, in which databases of SQLite may be in use."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

_HEADER = b"SQLite format 3\0"
_BESIDE = ("-wal", "-shm", "-journal")
"""What a database has beside it: its backup has all that is in them."""


def take(folder: Path, target: Path) -> None:
    """Copy *folder* to *target*, which is not there yet; a database by SQLite's own backup, as of one transaction."""
    shutil.copytree(folder, target, symlinks=True, ignore=_beside, copy_function=_copy)


def put_back(folder: Path, source: Path) -> None:
    """Make *folder* what was copied to *source*; it stays the same folder."""
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    shutil.copytree(source, folder, symlinks=True, dirs_exist_ok=True)


def _copy(source: str, target: str) -> None:
    if not _is_database(Path(source)):
        shutil.copy2(source, target)
        return
    uri = f"{Path(source).absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as database, closing(sqlite3.connect(target)) as copy:
        database.backup(copy)
    shutil.copystat(source, target)


def _beside(folder: str, names: Sequence[str]) -> set[str]:
    """Return those of *names* that belong to a database in *folder*."""
    databases = [name for name in names if _is_database(Path(folder, name))]
    return {database + suffix for database in databases for suffix in _BESIDE}


def _is_database(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_HEADER)) == _HEADER
