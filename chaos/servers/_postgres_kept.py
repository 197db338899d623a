"""One lease's database as it is watched: its schema, by the program pg_dump when that changed, and its rows."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from chaos.errors import HarnessError
from chaos.servers._postgres_rows import DEFINITIONS, MORE, KeptRows, Tables, one

LOCK_MS = 2000  # the agent stands still: a lock that is held now stays held
DUMP_SECONDS = 60.0  # of the schema alone: a tenth of a second
GONE_SECONDS = 10.0  # an ended connection is gone in milliseconds
SIZE, LOG = "pg_database_size(current_database())", "pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
FACTS = f"SELECT ({MORE}), ({DEFINITIONS}), {SIZE}, {LOG}, pg_snapshot_xmin(pg_current_snapshot())::text"
# Who is connected besides us; the server's own workers come and go.
OTHERS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


class Watched:
    """The database at *url*, with a connection of ours.

    Args:
        program: `pg_dump` of a version that suits the server.
        begin_anew: makes the database anew, with nothing in it; nobody is connected.
    """

    def __init__(self, url: str, program: Path, begin_anew: Callable[[], None]) -> None:
        self._url, self._program, self._begin_anew = url, program, begin_anew
        self._tables: Tables | None = None
        self._connect()

    def _connect(self) -> None:
        self._connection = psycopg.connect(self._url, autocommit=True, options=f"-c lock_timeout={LOCK_MS}")

    def answers(self) -> bool:
        """Tell whether the server answers us; one that was away does not any more."""
        try:
            self._connection.execute("SELECT")
        except psycopg.OperationalError:
            self._connection.close()
            return False
        return True

    def keep(self, size: int, begin: int) -> KeptRows | None:
        """Return what there is; None if there is more than rows of tables, or a lock on them.

        Args:
            size: bytes of the database when it was empty.
            begin: where the log was then.
        """
        try:
            with self._connection.transaction():
                self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                found = self._connection.execute(FACTS.encode()).fetchone()
                assert found is not None
                more, definitions, now, log, since = found
                if more or not self._has_schema(definitions):
                    return None
                assert self._tables is not None
                return self._tables.keep(now - size, int(log) - begin, since)
        except psycopg.errors.LockNotAvailable:
            return None

    def put_back(self, kept: KeptRows) -> None:
        """Cut all connections of others, and make the database what it was when *kept* was."""
        self._alone()
        if self._tables is None or (self._tables.schema, self._tables.definitions) != (kept.schema, self._defined()):
            self._make(kept.schema)
        assert self._tables is not None
        with self._connection.transaction():
            self._tables.put_back(kept)

    def size(self) -> int:
        """Return the bytes of the database's files."""
        return int(one(self._connection, f"SELECT {SIZE}"))

    def log(self) -> int:
        """Return how far the server's log is, bytes."""
        return int(one(self._connection, f"SELECT {LOG}"))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _defined(self) -> str:
        return one(self._connection, DEFINITIONS)

    def _has_schema(self, definitions: str) -> bool:
        """Know the tables as they are now, with those *definitions*; return whether that was possible."""
        if self._tables is None or self._tables.definitions != definitions:
            schema = self._dumped()
            self._tables = Tables(self._connection, schema, definitions) if schema else None
        return self._tables is not None

    def _dumped(self) -> str:
        """Return the text that makes the schema, "" if it cannot be had."""
        command = (self._program, "--schema-only", f"--lock-wait-timeout={LOCK_MS}", "--dbname", self._url)
        done = subprocess.run(command, capture_output=True, text=True, timeout=DUMP_SECONDS, check=False)
        # Lines that begin so are for psql; some versions put a random word into two of them.
        lines = [line for line in done.stdout.splitlines() if not line.startswith("\\")]
        return "" if done.returncode else "\n".join(lines)

    def _alone(self) -> None:
        """Cut the connections of others and return when they are gone: what they had not committed goes with them."""
        self._connection.execute(f"SELECT pg_terminate_backend(pid) FROM ({OTHERS}) AS others".encode())
        end = time.monotonic() + GONE_SECONDS
        while left := self._connection.execute(OTHERS.encode()).fetchall():
            if time.monotonic() > end:
                raise HarnessError(f"the server does not end the connections of a dead agent (processes {left})")
            time.sleep(0.001)

    def _make(self, schema: str) -> None:
        """Make the database anew, with that *schema* and no rows."""
        self._connection.close()
        self._begin_anew()
        with psycopg.connect(self._url, autocommit=True) as connection:  # the text changes settings
            connection.execute(schema.encode())
        self._connect()
        self._tables = Tables(self._connection, schema, self._defined())
