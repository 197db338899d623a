"""PostgreSQL for real: databases of their own, their sizes, and what a release leaves."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chaos.durable import Lease
from chaos.errors import HarnessError
from chaos.servers import postgres
from chaos.servers.postgres import Postgres, RunningPostgres

NAME = "postgres"
MEGABYTE = 1 << 20


@contextmanager
def connected(lease: Lease) -> Iterator[Any]:
    import psycopg

    with psycopg.connect(lease.url, autocommit=True) as connection:
        yield connection


def databases(lease: Lease) -> set[str]:
    with connected(lease) as connection:
        return {name for (name,) in connection.execute("SELECT datname FROM pg_database")}


def fill(lease: Lease) -> None:
    """Store a megabyte that cannot be compressed, in rows of 64 KB."""
    with connected(lease) as connection:
        connection.execute("CREATE TABLE stored (content bytea)")
        for _ in range(16):
            connection.execute("INSERT INTO stored VALUES (%s)", (os.urandom(MEGABYTE // 16),))


def test_two_leases_do_not_see_each_other(running: RunningPostgres) -> None:
    one, two = running.lease("chaos_one"), running.lease("chaos_two")
    fill(one)
    with connected(two) as connection:
        assert connection.execute("SELECT to_regclass('stored')").fetchone() == (None,)
        connection.execute("CREATE TABLE stored (other int)")
    assert {"chaos_one", "chaos_two"} <= databases(one)
    running.release(one)
    assert "chaos_one" not in databases(two)
    with connected(two) as connection:
        assert connection.execute("SELECT count(*) FROM stored").fetchone() == (0,)
    running.release(two)


def test_what_is_stored_and_written(running: RunningPostgres) -> None:
    lease = running.lease("chaos_sizes")
    assert running.stored_bytes(lease) == 0 and running.written_bytes(lease) == 0
    fill(lease)
    stored, written = running.stored_bytes(lease), running.written_bytes(lease)
    assert MEGABYTE < stored < 1.5 * MEGABYTE
    assert MEGABYTE < written < 1.5 * MEGABYTE
    with connected(lease) as connection:
        connection.execute("CHECKPOINT")
        assert running.stored_bytes(lease) == stored  # pages that are only in memory were counted before
        connection.execute("UPDATE stored SET content = content || 'x'")
    assert running.written_bytes(lease) > written + MEGABYTE
    running.release(lease)


def test_a_release_cuts_what_is_still_connected(running: RunningPostgres) -> None:
    import psycopg

    lease, other = running.lease("chaos_open"), running.lease("chaos_other")
    with psycopg.connect(lease.url) as connection:
        connection.execute("CREATE TABLE unfinished (number int)")
        running.release(lease)
        assert "chaos_open" not in databases(other)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    running.release(other)
    running.release(other)  # it is gone: nothing happens


def test_it_is_as_durable_as_by_default_and_local(running: RunningPostgres) -> None:
    lease = running.lease("chaos_settings")
    with connected(lease) as connection:
        for name in ("fsync", "full_page_writes", "synchronous_commit"):
            assert connection.execute(f"SHOW {name}").fetchone() == ("on",)
        assert connection.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
        assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)
    running.release(lease)


def test_at_an_address_only_what_is_ours_goes(running: RunningPostgres, tmp_path: Path) -> None:
    theirs = running.lease("somebody_s")
    fill(theirs)
    address = theirs.url.replace("postgresql:", "postgres:") + "?application_name=them"
    with connected(theirs) as connection:  # connected to what we connect to as well
        ours = Postgres().open(tmp_path, address)
        lease = ours.lease("chaos_ours")
        assert lease.url == theirs.url.replace("somebody_s", "chaos_ours?application_name=them")
        fill(lease)
        assert MEGABYTE < ours.stored_bytes(lease) < 1.5 * MEGABYTE
        before = databases(theirs)
        ours.release(lease)
        ours.close()
        assert before - databases(theirs) == {"chaos_ours"}
        assert connection.execute("SELECT count(*) FROM stored").fetchone() == (16,)
    assert list(tmp_path.iterdir()) == []
    running.release(theirs)


def test_who_may_not_make_a_database_is_told(running: RunningPostgres, tmp_path: Path) -> None:
    lease = running.lease("chaos_roles")
    with connected(lease) as connection:
        connection.execute("CREATE ROLE guest LOGIN")
        ours = Postgres().open(tmp_path, lease.url.replace("postgres@", "guest@"))
        with pytest.raises(HarnessError, match="permission denied to create database"):
            ours.lease("chaos_refused")
        connection.execute("DROP ROLE guest")
    running.release(lease)


def test_what_is_missing_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(postgres, "DEBIAN", tmp_path)
    told = Postgres().missing("")
    assert "apt-get install postgresql" in told and "--chaos-servers postgres=postgresql://" in told
    assert Postgres().missing("postgresql://somewhere") == ""
    with pytest.raises(HarnessError, match="apt-get install postgresql"):
        Postgres().open(tmp_path, "")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install 'pytest-chaos[strategies]'" in Postgres().missing("")


def test_a_cluster_that_cannot_be_made_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One wrong setting, and the server's own reason is told."""
    if missing := Postgres().missing(""):
        pytest.skip(missing)
    (folder / "broken").mkdir()
    monkeypatch.setattr(postgres, "SETTINGS", ("shared_buffers=nonsense",))
    with pytest.raises(HarnessError, match=r"postgres ended with status 1: .*shared_buffers"):
        Postgres().open(folder / "broken", "")
    assert not (folder / "broken").exists()
