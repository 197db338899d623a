"""What a database has, kept and put back row by row, while its user stands still, connected.

A version of a row never changes: an update makes another one, in another place or by another transaction. So where a
version is (ctid) and who made it (xmin) tell whether its content is known already, and only new versions are fetched.
They are found among the transactions since last time; that others went shows in the number of those that are left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from chaos.errors import HarnessError
from chaos.servers._aside import Aside, Piece

if TYPE_CHECKING:
    from psycopg import Connection

HASH_BITS, XID_BITS = 128, 32
NO_ROWS = b"SELECT 0 WHERE false"
FIRST_USER_OID = 16384  # FirstNormalObjectId in access/transam.h: what has a lower number was there from the start
CATALOGS = {
    "pg_class": "oid", "pg_attribute": "attrelid", "pg_type": "oid", "pg_proc": "oid", "pg_constraint": "oid",
    "pg_index": "indexrelid", "pg_attrdef": "oid", "pg_trigger": "oid", "pg_namespace": "oid", "pg_rewrite": "oid",
    "pg_enum": "oid", "pg_extension": "oid", "pg_policy": "oid", "pg_statistic_ext": "oid",
}  # fmt: skip
"""Where the schema is, with the column by which the user's part is found."""

# Changes when anything is defined, changed or dropped (and at times when nothing is).
_PARTS = " UNION ALL ".join(
    f"SELECT '{catalog}' || ctid::text || xmin::text AS part FROM {catalog} WHERE {column} >= {FIRST_USER_OID}"
    for catalog, column in CATALOGS.items()
)
DEFINITIONS = f"SELECT md5(string_agg(part, ',' ORDER BY part)) FROM ({_PARTS}) AS parts"
USERS = "nspname !~ '^pg_' AND nspname <> 'information_schema'"
TABLES = f"""
SELECT format('%I.%I', nspname, relname), string_agg(format('%I', attname), ', ' ORDER BY attnum)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
WHERE relkind = 'r' AND relpersistence <> 't' AND {USERS} GROUP BY 1 ORDER BY 1
"""
SEQUENCES = f"""
SELECT format('%I.%I', nspname, relname) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relkind = 'S' AND relpersistence <> 't' AND {USERS} ORDER BY 1
"""
# What is more than rows of tables.
MORE = f"""
SELECT EXISTS (SELECT FROM pg_largeobject_metadata)
OR EXISTS (SELECT FROM pg_prepared_xacts WHERE database = current_database())
OR EXISTS (SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
           WHERE relkind IN ('m', 'f') AND {USERS})
"""


@dataclass(frozen=True, eq=False)
class Row:
    """The content of one version of a row of *table*, as COPY has it; *number* is a digest that can be added up."""

    table: str
    line: Piece
    number: int


@dataclass(frozen=True, eq=False)
class KeptRows:
    """The rows of *earlier* without those that are *gone* and with those that *came*; *total* adds up their digests.

    *schema* is the text that makes the tables. The database's user had *stored* and *written* so many bytes.
    """

    schema: str
    earlier: KeptRows | None
    gone: tuple[Row, ...]
    came: tuple[Row, ...]
    sequences: tuple[tuple[str, int, bool], ...]
    total: int
    stored: int
    written: int

    @property
    def digest(self) -> str:
        """The same whatever order rows were written in."""
        text = f"{self.schema}\n{self.sequences}\n{self.total}"
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def rows(self) -> dict[Row, None]:
        """Return all rows, in the order in which they came."""
        chain, part = list[KeptRows](), self
        while part is not None:
            chain.append(part)
            part = part.earlier  # type: ignore[assignment]
        rows = dict[Row, None]()
        for part in reversed(chain):
            for row in part.gone:
                del rows[row]
            rows.update(dict.fromkeys(part.came))
        return rows


Version = tuple[str, str]
"""Where a version of a row is in its table, and the transaction that made it."""


class Tables:
    """The tables of the database behind *connection*, which the text *schema* made.

    Args:
        definitions: what DEFINITIONS says while that is so.
    """

    def __init__(self, connection: Connection, schema: str, definitions: str) -> None:
        self.schema, self.definitions = schema, definitions
        self._connection = connection
        self._columns = {str(name): str(columns) for name, columns in connection.execute(TABLES.encode())}
        self._sequences = [str(name) for (name,) in connection.execute(SEQUENCES.encode())]
        self._known: dict[str, dict[Version, Row]] = {table: {} for table in self._columns}
        self._aside = Aside()
        self._since = ""  # the first transaction that may have made other versions than those
        self._last: KeptRows | None = None

    def keep(self, stored: int, written: int, since: str) -> KeptRows:
        """Return what there is; the connection is in a transaction that sees one instant.

        Args:
            since: the first transaction of which it may not see all.
        """
        came, gone = self._changes()
        self._since = _short(since)
        last, sequences = self._last, self._values()
        if last and last.sequences == sequences and not came and not gone:
            self._last = replace(last, stored=stored, written=written)
        else:
            total = (last.total if last else 0) + sum(row.number for row in came) - sum(row.number for row in gone)
            whole = total % (1 << HASH_BITS)
            self._last = KeptRows(self.schema, last, tuple(gone), tuple(came), sequences, whole, stored, written)
        return self._last

    def put_back(self, kept: KeptRows) -> None:
        """Make the tables have what they had when *kept* was; the connection is in a transaction."""
        run, wanted = self._connection.execute, kept.rows()
        run("SET LOCAL session_replication_role = replica")  # no triggers, those of foreign keys neither
        for table in self._columns:
            known, here = self._known[table], self._versions(table)
            stay = {version: known[version] for version in here if version in known and known[version] in wanted}
            if places := [place for place, made in here if (place, made) not in stay]:
                run(f"DELETE FROM ONLY {table} WHERE ctid = ANY(%s::tid[])".encode(), [places])
            self._known[table] = stay
        self._since = _short(one(self._connection, "SELECT pg_current_xact_id()"))
        present = {row for known in self._known.values() for row in known.values()}
        missing = defaultdict[str, list[Row]](list)
        for row in wanted:
            if row not in present:
                missing[row.table].append(row)
        for table, rows in missing.items():
            self._insert(table, rows)
        for name, value, called in kept.sequences:
            run("SELECT setval(%s::regclass, %s, %s)", [name, value, called])
        self._last = kept

    def _insert(self, table: str, rows: Sequence[Row]) -> None:
        """Insert *rows*, and learn which versions they are now."""
        with self._connection.cursor().copy(f"COPY {table} ({self._columns[table]}) FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write(row.line.read() + b"\n")
        same = defaultdict[int, list[Row]](list)
        for row in rows:
            same[row.number].append(row)
        for version, line in self._read(table, f"xmin = '{self._since}'::xid"):
            self._known[table][version] = same[_number(table, line)].pop()

    def _changes(self) -> tuple[list[Row], list[Row]]:
        """Return the rows that came since last time, and those that went."""
        new = f"age(xmin) <= age('{self._since}'::xid)" if self._since else "true"
        counts = (
            f"SELECT {_text(table)}, count(*), count(*) FILTER (WHERE {new}) FROM ONLY {table}"
            for table in self._columns
        )
        came, gone = list[Row](), list[Row]()
        for table, count, newer in self._connection.execute(" UNION ALL ".join(counts).encode() or NO_ROWS):
            known = self._known[table]
            for version, line in self._read(table, new) if newer else ():
                if version not in known:
                    known[version] = Row(table, self._aside.put(line), _number(table, line))
                    came.append(known[version])
            if len(known) != count:
                here = set(self._versions(table))
                gone += [known.pop(version) for version in list(known) if version not in here]
            if len(known) != count:
                raise HarnessError(f"{table} has {count} rows, {len(known)} of them were found")
        return came, gone

    def _read(self, table: str, where: str) -> Iterator[tuple[Version, bytes]]:
        """Return version and content of the rows of *table* that are as *where* says."""
        query = f"COPY (SELECT ctid, xmin, {self._columns[table]} FROM ONLY {table} WHERE {where}) TO STDOUT"
        with self._connection.cursor().copy(query.encode()) as copy:
            text = b"".join(bytes(block) for block in copy)
        for line in text.split(b"\n")[:-1]:  # one that is in a value is written as two other characters
            place, made, values = line.split(b"\t", 2)
            yield (place.decode(), made.decode()), values

    def _versions(self, table: str) -> list[Version]:
        return self._connection.execute(f"SELECT ctid::text, xmin::text FROM ONLY {table}".encode()).fetchall()

    def _values(self) -> tuple[tuple[str, int, bool], ...]:
        queries = (f"SELECT {_text(name)}, last_value, is_called FROM {name}" for name in self._sequences)
        return tuple(self._connection.execute(" UNION ALL ".join(queries).encode() or NO_ROWS).fetchall())


def one(connection: Connection, query: str) -> str:
    """Return the one value that *query* asks for, as text."""
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return str(row[0])


def _number(table: str, line: bytes) -> int:
    """Return the digest of a row."""
    return int.from_bytes(blake2b(table.encode() + b"\0" + line, digest_size=HASH_BITS // 8).digest(), "big")


def _text(value: str) -> str:
    """Return *value* as a constant of SQL."""
    return "'" + value.replace("'", "''") + "'"


def _short(transaction: str) -> str:
    """Return the number of a *transaction* as rows have it: without those of the rounds before."""
    return str(int(transaction) % (1 << XID_BITS))
