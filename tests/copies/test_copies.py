"""What was copied comes back as it was: folders, databases in use, and the parts of real servers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.copies import Copies
from chaos.durable import Durable, Lease
from chaos.pool import Pool


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "durable").mkdir()
    return tmp_path / "durable"


def tree(folder: Path) -> dict[str, object]:
    return {
        str(path.relative_to(folder)): path.readlink() if path.is_symlink() else path.is_file() and path.read_bytes()
        for path in folder.rglob("*")
    }


def test_a_folder_goes_back_with_all_that_is_in_it(folder: Path, tmp_path: Path) -> None:
    copies, seen = Copies(Durable(folder), tmp_path / "copies", 2), []
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("sub/a")
    for number in range(5):
        (folder / "sub" / "a").write_text(str(number))
        (folder / f"new-{number}").write_text("")
        copies.take()
        seen.append(tree(folder))
    inode = folder.stat().st_ino
    assert copies.put_back(2)
    assert tree(folder) == seen[2] != seen[4]
    assert folder.stat().st_ino == inode
    assert not copies.put_back(3), "there are as many as were asked for"
    assert len(list((tmp_path / "copies").iterdir())) == 3


def test_a_database_in_use_goes_back_by_transactions(folder: Path, tmp_path: Path) -> None:
    """Most of it is in the log beside it, which its writer still has open when the copy is taken."""
    copies = Copies(Durable(folder), tmp_path / "copies", 3)
    with closing(sqlite3.connect(folder / "state.db")) as writer:
        writer.execute("PRAGMA journal_mode=wal")
        writer.execute("CREATE TABLE kept (number)")
        for number in range(4):
            with writer:
                writer.execute("INSERT INTO kept VALUES (?)", (number,))
            copies.take()
        writer.execute("INSERT INTO kept VALUES (99)")  # not committed
        assert (folder / "state.db-wal").stat().st_size > (folder / "state.db").stat().st_size
    assert copies.put_back(2)
    assert sorted(path.name for path in folder.iterdir()) == ["state.db"]
    with closing(sqlite3.connect(folder / "state.db")) as reader:
        assert reader.execute("SELECT number FROM kept").fetchall() == [(0,), (1,)]


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with closing(Pool()) as pool:
        yield pool


@pytest.fixture
def lease(pool: Pool, request: pytest.FixtureRequest) -> Iterator[Lease]:
    if missing := pool.missing(request.param):
        pytest.skip(missing)
    with pool.leases([request.param]) as leases:
        yield leases.parts[request.param]


@pytest.mark.parametrize("lease", ["redis"], indirect=True)
def test_keys_go_back_and_others_stay(lease: Lease, folder: Path, tmp_path: Path) -> None:
    from redis import Redis

    with Redis.from_url(lease.url) as client:
        client.set("somebody-s", "value")
        client.rpush(f"{lease.space}list", b"\x00one", b"two")
        client.set(f"{lease.space}value", b"\xff")
        copies = Copies(Durable(folder, {"redis": lease}), tmp_path / "copies", 1)
        copies.take()
        client.rpush(f"{lease.space}list", b"three")
        client.delete(f"{lease.space}value")
        client.set(f"{lease.space}new", "")
        client.set("somebody-s", "other")
        assert copies.put_back(0)
        assert client.lrange(f"{lease.space}list", 0, -1) == [b"\x00one", b"two"]
        assert (client.get(f"{lease.space}value"), client.exists(f"{lease.space}new")) == (b"\xff", 0)
        assert client.get("somebody-s") == b"other"
        client.delete("somebody-s")


@pytest.mark.parametrize("lease", ["postgres"], indirect=True)
def test_rows_go_back_in_tables_that_refer_to_each_other(lease: Lease, folder: Path, tmp_path: Path) -> None:
    import psycopg

    with psycopg.connect(lease.url, autocommit=True) as database:
        database.execute('CREATE SCHEMA "A b"')
        database.execute(
            'CREATE TABLE "A b"."Parent" (id int PRIMARY KEY, self int REFERENCES "A b"."Parent", d jsonb)'
        )
        database.execute(
            'CREATE TABLE aaa (id serial, p int REFERENCES "A b"."Parent",'
            " twice int GENERATED ALWAYS AS (id * 2) STORED)"
        )
        database.execute("""INSERT INTO "A b"."Parent" VALUES (2, 1, '{"x": "\\u00e4"}'), (1, NULL, NULL)""")
        database.execute("INSERT INTO aaa (p) VALUES (1), (2)")
        before = database.execute('SELECT * FROM aaa, "A b"."Parent" ORDER BY 1, 4').fetchall()
        copies = Copies(Durable(folder, {"postgres": lease}), tmp_path / "copies", 1)
        copies.take()
        database.execute("DELETE FROM aaa")
        database.execute("""UPDATE "A b"."Parent" SET d = '[]', self = 2""")
        database.execute("CREATE TABLE later AS SELECT 1 AS one")
        assert copies.put_back(0)
        assert database.execute('SELECT * FROM aaa, "A b"."Parent" ORDER BY 1, 4').fetchall() == before
        assert database.execute("SELECT count(*) FROM later").fetchone() == (0,)


names = st.text("ab", min_size=1, max_size=2)


@given(
    states=st.lists(st.dictionaries(names, st.binary(max_size=5), max_size=4), min_size=1, max_size=5), data=st.data()
)
@settings(max_examples=25, deadline=None)
def test_any_state_of_a_folder_comes_back(
    states: list[dict[str, bytes]], data: st.DataObject, tmp_path_factory: Any
) -> None:
    base = tmp_path_factory.mktemp("any")
    folder = base / "durable"
    folder.mkdir()
    copies = Copies(Durable(folder), base / "copies", len(states))
    for state in states:
        for path in folder.iterdir():
            path.unlink()
        for name, content in state.items():
            (folder / name).write_bytes(content)
        copies.take()
    behind = data.draw(st.integers(0, len(states) - 1))
    assert copies.put_back(behind)
    assert tree(folder) == states[-1 - behind]
