"""Copies of all rows of one run's database in PostgreSQL, as `COPY` has them; tables are there to stay."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from chaos.durable import Lease

if TYPE_CHECKING:
    from psycopg import Connection

# A generated column cannot be copied in. Tables that others refer to come first, so that a row never lacks what it
# refers to (a table that refers to itself is copied in one command, after which that is looked at).
_TABLES = """
    WITH RECURSIVE own AS (
        SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    ), refers AS (
        SELECT conrelid, confrelid FROM pg_constraint WHERE contype = 'f' AND conrelid != confrelid
    ), level AS (
        SELECT oid, 0 AS depth FROM own
        UNION SELECT r.conrelid, l.depth + 1 FROM level AS l JOIN refers AS r ON r.confrelid = l.oid WHERE l.depth < 20
    )
    SELECT l.oid::regclass::text, (
        SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
        WHERE attrelid = l.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
    ) FROM level AS l GROUP BY l.oid ORDER BY max(l.depth), 1
"""


class _Table(NamedTuple):
    name: str  # as SQL names it
    columns: str


def take(lease: Lease, target: Path) -> None:
    """Copy every table of the database of *lease* into *target*, a file for each, as of one moment."""
    import psycopg

    with psycopg.connect(lease.url) as database:
        database.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        for number, table in enumerate(_tables(database)):
            (target / f"{number}.name").write_text(table.name)
            with (
                (target / f"{number}.rows").open("wb") as file,
                database.cursor().copy(
                    f"COPY {table.name} ({table.columns}) TO STDOUT (FORMAT binary)".encode()
                ) as rows,
            ):
                for block in rows:
                    file.write(block)


def put_back(lease: Lease, source: Path) -> None:
    """Replace the rows of all tables of *lease* by those in *source*, in one transaction; new tables become empty."""
    import psycopg

    copied = {name.read_text(): name.with_suffix(".rows") for name in source.glob("*.name")}
    with psycopg.connect(lease.url) as database:
        tables = _tables(database)
        if tables:
            database.execute(f"TRUNCATE {', '.join(table.name for table in tables)}".encode())
        for table in tables:
            if table.name in copied:
                command = f"COPY {table.name} ({table.columns}) FROM STDIN (FORMAT binary)"
                with database.cursor().copy(command.encode()) as rows:
                    rows.write(copied[table.name].read_bytes())


def _tables(database: Connection) -> list[_Table]:
    return [_Table(*row) for row in database.execute(_TABLES.encode())]
