"""A DBOS workflow in PostgreSQL: the rows of `dbos.operation_outputs` are the deltas, one for each completed step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from chaos.durable import Durable
from chaos.stores import Delta, Plain
from chaos.stores._postgres import PAGES_FOLLOW_THE_LOG

if TYPE_CHECKING:
    from psycopg import Connection


@dataclass(frozen=True)
class DbosPostgres(Plain):
    """The outputs of the steps, in the order of their numbers: pickled, then base64. A recovery reads all of them.

    The workflow runs a step whose row is missing again. A second row takes the place of the step that comes next.
    """

    whole: ClassVar[str] = PAGES_FOLLOW_THE_LOG

    def deltas(self, durable: Durable) -> tuple[Delta, ...]:
        with _opened(durable) as database:
            if database.execute("SELECT to_regclass('dbos.operation_outputs')").fetchone() == (None,):
                return ()  # killed before DBOS had made its tables
            rows = database.execute(
                "SELECT function_id, octet_length(output) FROM dbos.operation_outputs"
                " WHERE output IS NOT NULL ORDER BY function_id"
            ).fetchall()
        return tuple(Delta(order, number, size, True) for order, (number, size) in enumerate(rows))

    def read(self, durable: Durable, delta: Delta) -> bytes:
        query = "SELECT output FROM dbos.operation_outputs WHERE function_id = %s"
        with _opened(durable) as database:
            found = database.execute(query, (delta.row,)).fetchone()
        return str(found[0]).encode() if found else b""

    def write(self, durable: Durable, delta: Delta, data: bytes) -> None:
        # PostgreSQL takes no text that is not UTF-8, and no zero byte: such a byte becomes the mark for it.
        text = data.decode(errors="replace").replace("\0", "\ufffd")
        with _opened(durable) as database:
            database.execute("UPDATE dbos.operation_outputs SET output = %s WHERE function_id = %s", (text, delta.row))

    def delete(self, durable: Durable, delta: Delta) -> None:
        with _opened(durable) as database:
            database.execute("DELETE FROM dbos.operation_outputs WHERE function_id = %s", (delta.row,))

    def duplicate(self, durable: Durable, delta: Delta) -> None:
        with _opened(durable) as database:
            # All later steps move up by one, by way of numbers that nobody has: a number may not be there twice.
            database.execute(
                "UPDATE dbos.operation_outputs SET function_id = -function_id - 1 WHERE function_id > %s", (delta.row,)
            )
            database.execute("UPDATE dbos.operation_outputs SET function_id = -function_id WHERE function_id < 0")
            database.execute(
                "CREATE TEMP TABLE copy AS SELECT * FROM dbos.operation_outputs WHERE function_id = %s", (delta.row,)
            )
            database.execute("UPDATE copy SET function_id = function_id + 1")
            database.execute("INSERT INTO dbos.operation_outputs SELECT * FROM copy")


def _opened(durable: Durable) -> Connection:
    """Connect to the run's database; as a context, commit and close in the end."""
    import psycopg

    return psycopg.connect(durable.leases["postgres"].url)
