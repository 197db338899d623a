"""How much of a database is its log: against SQLite itself, which is asked to checkpoint."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from chaos import sqlite_log


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def killed(live: Path, folder: Path) -> Path:
    """Copy the files of a live database as a kill leaves them."""
    shutil.copytree(live, folder)
    return folder


@pytest.fixture
def live(tmp_path: Path) -> Path:
    (tmp_path / "live").mkdir()
    return tmp_path / "live"


def connected(folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / "state.db")
    connection.execute("PRAGMA journal_mode=wal")
    connection.execute("CREATE TABLE IF NOT EXISTS kept (data BLOB)")
    return connection


@pytest.mark.parametrize("rows", [1, 40, 400, 3000])
def test_the_surplus_is_what_a_checkpoint_gives_back(live: Path, tmp_path: Path, rows: int) -> None:
    connection = connected(live)
    for row in range(rows):
        with connection:
            connection.execute("INSERT INTO kept VALUES (?)", (bytes([row % 256]) * 5000,))
    folder = killed(live, tmp_path / "killed")
    connection.close()
    at_rest = size(folder) - sqlite_log.surplus(folder)
    again = sqlite3.connect(folder / "state.db")
    again.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    again.close()
    assert size(folder) == at_rest
    assert sqlite_log.surplus(folder) == 0


def test_what_was_not_committed_does_not_count(live: Path, tmp_path: Path) -> None:
    connection = connected(live)
    connection.execute("PRAGMA cache_size=10")  # pages go to the log before the commit
    connection.execute("BEGIN")
    for _ in range(200):
        connection.execute("INSERT INTO kept VALUES (zeroblob(5000))")
    folder = killed(live, tmp_path / "killed")
    connection.rollback()
    connection.close()
    assert (folder / "state.db-wal").stat().st_size > 500_000
    assert size(folder) - sqlite_log.surplus(folder) < 50_000


def test_a_folder_without_databases_has_none(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text("{}\n")
    (tmp_path / "torn.db-wal").write_bytes(b"7\x7f\x06\x82")
    assert sqlite_log.surplus(tmp_path) == 4
