"""A DBOS workflow in SQLite: the rows of `operation_outputs` are the deltas, one for each completed step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaos.durable import Durable
from chaos.stores import Delta, Plain
from chaos.stores._sqlite import opened

DATABASE = "dbos.sqlite"


@dataclass(frozen=True)
class DbosSqlite(Plain):
    """The outputs of the steps, in the order of their numbers: pickled, then base64. A recovery reads all of them.

    The workflow runs a step whose row is missing again. A second row takes the place of the step that comes next.
    """

    whole: ClassVar[str] = "its rollback journal goes with the commit, and with it what says which pages were written"

    def deltas(self, durable: Durable) -> tuple[Delta, ...]:
        if not (durable.folder / DATABASE).exists():
            return ()
        with opened(durable.folder / DATABASE) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'operation_outputs'").fetchone():
                return ()  # killed before DBOS had made its tables
            rows = database.execute(
                "SELECT function_id, length(CAST(output AS BLOB)) FROM operation_outputs"
                " WHERE output IS NOT NULL ORDER BY function_id"
            ).fetchall()
        return tuple(Delta(order, number, size, True) for order, (number, size) in enumerate(rows))

    def read(self, durable: Durable, delta: Delta) -> bytes:
        query = "SELECT CAST(output AS BLOB) FROM operation_outputs WHERE function_id = ?"
        with opened(durable.folder / DATABASE) as database:
            found = database.execute(query, (delta.row,)).fetchone()
        return found[0] if found else b""

    def write(self, durable: Durable, delta: Delta, data: bytes) -> None:
        # The cast keeps the bytes as they are, also where they are no text any more.
        with opened(durable.folder / DATABASE) as database:
            database.execute(
                "UPDATE operation_outputs SET output = CAST(? AS TEXT) WHERE function_id = ?", (data, delta.row)
            )

    def delete(self, durable: Durable, delta: Delta) -> None:
        with opened(durable.folder / DATABASE) as database:
            database.execute("DELETE FROM operation_outputs WHERE function_id = ?", (delta.row,))

    def duplicate(self, durable: Durable, delta: Delta) -> None:
        with opened(durable.folder / DATABASE) as database:
            # All later steps move up by one, by way of numbers that nobody has: a number may not be there twice.
            database.execute(
                "UPDATE operation_outputs SET function_id = -function_id - 1 WHERE function_id > ?", (delta.row,)
            )
            database.execute("UPDATE operation_outputs SET function_id = -function_id WHERE function_id < 0")
            database.execute(
                "CREATE TEMP TABLE copy AS SELECT * FROM operation_outputs WHERE function_id = ?", (delta.row,)
            )
            database.execute("UPDATE copy SET function_id = function_id + 1")
            database.execute("INSERT INTO operation_outputs SELECT * FROM copy")
