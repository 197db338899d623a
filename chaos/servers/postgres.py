"""PostgreSQL: a database for each run."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from chaos import leftovers, ports
from chaos.durable import Lease
from chaos.errors import HarnessError
from chaos.servers._address import shown
from chaos.servers._daemon import Daemon, Service, become

if TYPE_CHECKING:
    from psycopg import Connection

    from chaos.servers import Kept
    from chaos.servers._postgres_kept import Watched

DEBIAN = Path("/usr/lib/postgresql")  # Debian keeps the server's programs off the PATH, in a folder for each version
USERS = ("postgres", "nobody")  # the server refuses to run as root
CONNECT_SECONDS = 5
LOG = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), %s::pg_lsn)::bigint"
# Durability (fsync, full_page_writes, synchronous_commit) stays at its safe defaults. Shared memory goes into files of
# the data folder: what a SIGKILLed server leaves in /dev/shm nobody would remove.
SETTINGS = (
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "shared_buffers=32MB",
    "max_connections=200",
    "dynamic_shared_memory_type=mmap",
)


@dataclass(frozen=True)
class Postgres:
    """A temporary cluster, or somebody's server at postgresql://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE.

    The user at an address must be allowed to create databases.
    """

    def missing(self, address: str) -> str:
        try:
            import psycopg  # noqa: F401 (it is there and finds its library)
        except ImportError as error:
            return f"no PostgreSQL driver ({error}): pip install 'pytest-chaos[strategies]'"
        if address:
            return ""
        if not _programs():
            return (
                "no PostgreSQL server: apt-get install postgresql, or name one by"
                " --chaos-servers postgres=postgresql://USER:PASSWORD@HOST:PORT/postgres"
            )
        if os.geteuid() == 0 and (_user() is None or not shutil.which("setpriv")):
            return f"PostgreSQL refuses to run as root: a user {' or '.join(USERS)} and setpriv (util-linux) are needed"
        return ""

    def open(self, folder: Path, address: str) -> RunningPostgres:
        if address:
            url = _url(address)
            if refusal := _refusal(url):
                raise HarnessError(
                    f"PostgreSQL at {shown(address)} does not let us in ({refusal}); give the address of a running"
                    " server, as in --chaos-servers postgres=postgresql://USER:PASSWORD@HOST:PORT/postgres"
                )
            return RunningPostgres(url, ExitStack())
        if missing := self.missing(address):
            raise HarnessError(missing)
        with ExitStack() as stack:
            stack.callback(leftovers.remove, folder)
            port = stack.enter_context(ports.claimed(("postgres",)))[0][1]
            url = f"postgresql://{USERS[0]}@127.0.0.1:{port}/postgres"
            _make(folder)
            service = Service(lambda: _start(folder, port, url))
            stack.callback(service.stop, signal.SIGQUIT)  # at once: nothing is to be saved
            return RunningPostgres(url, stack.pop_all(), service)


class _Mark(NamedTuple):
    """Where a lease began: the size of its empty database, and how long the log was, bytes."""

    size: int
    log: int


class RunningPostgres:
    """A server that answers at *url*, with a database that is not touched; *stack* undoes what was begun for it."""

    def __init__(self, url: str, stack: ExitStack, service: Service | None = None) -> None:
        self._url, self._stack, self.service = url, stack, service
        self._marks: dict[str, _Mark] = {}
        self._watched: dict[str, Watched] = {}

    def lease(self, name: str) -> Lease:
        with self._connected() as connection:
            _create(connection, name)
            self._marks[name] = _Mark(_size(connection, name), int(str(_one(connection, LOG, "0/0"))))
        return Lease(_at(self._url, name), name)

    def stored_bytes(self, lease: Lease) -> int:
        """Return the growth of the files of the lease's database since it was empty: tables, indexes, TOAST, catalogs.

        A file grows when a page is added and not when it is written back, so that a CHECKPOINT, which would write back
        what is only in memory and in the log, does not change this; the log itself is the server's and not counted.
        """
        with self._connected() as connection:
            return _size(connection, lease.space) - self._marks[lease.space].size

    def written_bytes(self, lease: Lease) -> int:
        """Return the bytes of write-ahead log since the lease was made, by everybody who uses the server.

        All that is changed goes through this log first, with a whole page for its first change after a checkpoint.
        What is later written back into tables is not counted: it is written once for many changes, when the server
        likes.
        """
        with self._connected() as connection:
            return int(str(_one(connection, LOG, "0/0"))) - self._marks[lease.space].log

    def keep(self, lease: Lease) -> Kept | None:
        """Return the rows of all tables, the sequences, and the schema; see the protocol.

        Only a superuser can put them back, with `pg_dump` at hand; and large objects, materialized views, foreign
        tables and prepared transactions not at all.
        """
        mark = self._marks[lease.space]
        with self._watching(lease) as watched:
            return watched.keep(mark.size, mark.log) if watched else None

    def put_back(self, lease: Lease, kept: Kept) -> None:
        from chaos.servers._postgres_rows import KeptRows

        assert isinstance(kept, KeptRows)
        with self._watching(lease) as watched:
            assert watched is not None
            watched.put_back(kept)
            self._marks[lease.space] = _Mark(watched.size() - kept.stored, watched.log() - kept.written)

    def release(self, lease: Lease) -> None:
        if watched := self._watched.pop(lease.space, None):
            watched.close()
        with self._connected() as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {lease.space} WITH (FORCE)".encode())
        self._marks.pop(lease.space, None)

    def close(self) -> None:
        while self._watched:
            self._watched.popitem()[1].close()
        self._stack.close()

    @contextmanager
    def _watching(self, lease: Lease) -> Iterator[Watched | None]:
        """Have the lease's database watched; None where what it has could not be put back."""
        import psycopg

        from chaos.servers._postgres_kept import Watched

        try:
            if (old := self._watched.get(lease.space)) and not old.answers():  # the server was away since
                self._watched.pop(lease.space)
            if lease.space not in self._watched and (program := self._dump_program()):
                self._watched[lease.space] = Watched(lease.url, program, partial(self._make_anew, lease.space))
            yield self._watched.get(lease.space)
        except BaseException as error:  # whatever it knows may be wrong now
            if watched := self._watched.pop(lease.space, None):
                watched.close()
            if isinstance(error, psycopg.Error):
                raise HarnessError(f"PostgreSQL does not do its part: {error}") from error
            raise

    def _dump_program(self) -> Path | None:
        """Return the program that tells a database's schema; None if there is none, or we could not put rows back."""
        found = [(_programs() or DEBIAN) / "pg_dump", *map(Path, filter(None, [shutil.which("pg_dump")]))]
        with self._connected() as connection:
            able = _one(connection, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        return next((program for program in found if able and program.exists()), None)

    def _make_anew(self, name: str) -> None:
        with self._connected() as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
            _create(connection, name)

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """Have a connection for one call: between two calls a server may end, and a kept one breaks."""
        import psycopg

        try:
            with psycopg.connect(self._url, autocommit=True, connect_timeout=CONNECT_SECONDS) as connection:
                yield connection
        except psycopg.Error as error:
            raise HarnessError(f"PostgreSQL does not do its part: {error}") from error


def _create(connection: Connection, name: str) -> None:
    """Make the database *name*."""
    # template0 has none of the user's own objects, and nobody can be connected to it, which would refuse us.
    options = "TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"
    connection.execute(f"CREATE DATABASE {name} {options}".encode())


def _one(connection: Connection, query: str, *values: str) -> object:
    """Return the one value that *query* asks for."""
    row = connection.execute(query.encode(), values).fetchone()
    assert row is not None
    return row[0]


def _size(connection: Connection, database: str) -> int:
    return int(str(_one(connection, "SELECT pg_database_size(%s)", database)))


def _refusal(url: str) -> str:
    """Return why nobody can connect to *url*, "" if it works."""
    import psycopg

    try:
        psycopg.connect(url, connect_timeout=CONNECT_SECONDS).close()
    except psycopg.Error as error:
        return str(error).strip().splitlines()[-1]
    return ""


def _url(address: str) -> str:
    """Return *address* as the URL that every client understands."""
    _, scheme, rest = address.rpartition("://")
    return f"postgresql://{rest}" if scheme else f"postgresql://{address}"


def _at(url: str, database: str) -> str:
    """Return *url* with another *database*."""
    parts = urlsplit(url)
    return f"postgresql://{parts.netloc}/{database}" + (f"?{parts.query}" if parts.query else "")


def _programs() -> Path | None:
    """Return the folder with `postgres` and `initdb`: of the PATH, else Debian's newest; None if there is none."""
    on_path = [Path(found).parent for found in (shutil.which("postgres"),) if found]
    versions = sorted(DEBIAN.glob("*/bin"), key=lambda folder: folder.parent.name.rjust(8), reverse=True)
    folders = [*on_path, *versions]
    return next((folder for folder in folders if all((folder / n).exists() for n in ("postgres", "initdb"))), None)


def _user() -> pwd.struct_passwd | None:
    """Return the user to run the server as; None: ourselves."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next((known[name] for name in USERS if name in known), None)


def _make(folder: Path) -> None:
    """Make a cluster in *folder*."""
    programs, user, data = _programs(), _user(), folder / "data"
    assert programs is not None
    data.mkdir(mode=0o700)
    if user is not None:
        os.chown(data, user.pw_uid, user.pw_gid)
        folder.chmod(0o711)  # it stays ours; the server must come through it
    _initialize(programs / "initdb", data, user)


def _start(folder: Path, port: int, url: str) -> Daemon:
    """Start the server of the cluster in *folder*; return when it answers."""
    programs, user, data = _programs(), _user(), folder / "data"
    assert programs is not None
    settings = (word for setting in (*SETTINGS, f"port={port}") for word in ("-c", setting))
    daemon = Daemon((str(programs / "postgres"), "-D", str(data), *settings), folder, user)
    try:
        daemon.await_ready(lambda: not _refusal(url))
    except BaseException:
        daemon.stop(signal.SIGQUIT)
        raise
    return daemon


def _initialize(initdb: Path, data: Path, user: pwd.struct_passwd | None) -> None:
    options = ("-U", USERS[0], "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
    command = (*become(user, (str(initdb), "-D", str(data), *options)),)
    done = subprocess.run(command, cwd=data.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        who = f" as the user {user.pw_name}, who must be able to reach it (or set TMPDIR)" if user else ""
        raise HarnessError(f"{initdb} cannot make a cluster in {data}{who}: {done.stderr.strip()}")
