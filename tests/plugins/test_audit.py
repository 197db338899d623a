"""The command, as a user calls it, on files that LangGraph wrote."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from chaos.plugins.command_line import main
from tests.audit.threads import given, loop


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        for thread in ("thread-1", "thread-2"):
            config = {"configurable": {"thread_id": thread}}
            loop(SqliteSaver(connection), 100).invoke(given(), config, durability="sync")
    return path


def damage(store: Path) -> None:
    with closing(sqlite3.connect(store)) as database, database:
        [(middle,)] = database.execute(
            "SELECT checkpoint_id FROM checkpoints WHERE thread_id = 'thread-2' ORDER BY 1 LIMIT 1 OFFSET 3"
        ).fetchall()
        database.execute("DELETE FROM checkpoints WHERE checkpoint_id = ?", (middle,))


def test_a_whole_thread(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(store)  # of the other one
    assert main(["audit", str(store), "thread-1"]) == 0
    first, second, *blind = capsys.readouterr().out.splitlines()
    assert first == "thread thread-1: 7 checkpoints, 17 writes: 0 pieces of damage"
    assert second == "what cannot be seen from what is stored:"
    assert any("flipped bit" in line for line in blind) and any("the same as a crash" in line for line in blind)


def test_a_damaged_thread(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(store)
    assert main(["audit", str(store), "thread-2"]) == 1
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("unlinked: checkpoint ") and first.endswith(" is not there")
    assert second == "thread thread-2: 6 checkpoints, 17 writes: 1 piece of damage"


def test_for_programs(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(store)
    assert main(["audit", str(store), "thread-2", "--format", "json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["place"], said["thread"], said["checkpoints"]) == (str(store), "thread-2", 6)
    assert [one["kind"] for one in said["findings"]] == ["unlinked"] and said["blind"]
    assert main(["audit", str(store), "--format", "json"]) == 2
    assert json.loads(capsys.readouterr().out)["threads"] == ["thread-1", "thread-2"]


def test_without_a_thread_all_are_listed_and_nothing_passes(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(store)]) == 2
    assert capsys.readouterr().out.splitlines() == ["thread-1", "thread-2"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["thread-3"], "no thread 'thread-3' at STORE; did you mean 'thread-2'?"),
        (["x"], "no thread 'x' at STORE; known: thread-1, thread-2"),
    ],
)
def test_a_thread_that_is_not_there(
    store: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(["audit", str(store), *arguments]) == 2
    said, more = capsys.readouterr().err.splitlines()
    assert said == f"{says.replace('STORE', str(store))} [harness.no-store]" and "explain harness.no-store" in more


def test_a_store_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(tmp_path / "no.db"), "thread-1"]) == 2
    assert "no such file; name a file of SQLite or a postgresql:// address" in capsys.readouterr().err
