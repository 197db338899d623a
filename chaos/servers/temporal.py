"""Temporal: a prefix of workflow ids and task queues for each run."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from chaos import leftovers, ports
from chaos.durable import Lease
from chaos.errors import HarnessError
from chaos.servers._daemon import Daemon, Service

if TYPE_CHECKING:
    from temporalio.api.workflow.v1 import WorkflowExecutionInfo
    from temporalio.client import Client

NAMESPACE = "default"
DATABASE = "temporal.db"
CONNECT_SECONDS = 5.0
DELETE_SECONDS = 30.0  # a deletion is a task in the server's queue: done in less than a second
POLL_SECONDS = 0.05
# A closed workflow is by default deleted only after the queue's next mark, up to 30 s later.
SETTINGS = (
    "--headless",
    "--log-level",
    "error",
    "--dynamic-config-value",
    "history.transferProcessorEnsureCloseBeforeDelete=false",
)
WRITE_AHEAD_LOG = 2  # SQLite's write version in byte 18 of the header
REST_SECONDS = 10.0  # for a moment between two transactions of the server, which take milliseconds


@dataclass(frozen=True)
class Temporal:
    """The development server of Temporal's command line tool on a SQLite file, or somebody's server at HOST:PORT.

    The namespace is `default` in both cases.
    """

    def missing(self, address: str) -> str:
        try:
            import temporalio.client  # noqa: F401
        except ImportError as error:
            return f"no Temporal client ({error}): pip install 'pytest-chaos[strategies]'"
        if not address and not shutil.which("temporal"):
            return (
                "no Temporal server: put Temporal's command line tool `temporal` on the PATH, or name a server by"
                " --chaos-servers temporal=HOST:PORT"
            )
        return ""

    def open(self, folder: Path, address: str) -> RunningTemporal:
        if address:
            if refusal := _refusal(address):
                raise HarnessError(
                    f"Temporal at {address} does not let us in ({refusal}); give the address of a running server with"
                    f" the namespace {NAMESPACE!r}, as in --chaos-servers temporal=HOST:PORT"
                )
            return RunningTemporal(address, None, ExitStack())
        if missing := self.missing(address):
            raise HarnessError(missing)
        with ExitStack() as stack:
            stack.callback(leftovers.remove, folder)
            port = stack.enter_context(ports.claimed(("temporal",)))[0][1]
            place = ("--ip", "127.0.0.1", "--port", str(port), "--db-filename", str(folder / DATABASE))
            start = (shutil.which("temporal") or "temporal", "server", "start-dev", *place, *SETTINGS)
            address = f"127.0.0.1:{port}"
            service = Service(lambda: _start(start, folder, port))
            stack.callback(service.stop, signal.SIGKILL)  # a clean end takes a second, and nothing is kept
            own = _started[address] = _Own(service, folder / DATABASE)
            stack.callback(_started.pop, address)
            return RunningTemporal(address, own, stack.pop_all())


class _Own(NamedTuple):
    """A server of our own: its process and its database."""

    service: Service
    database: Path

    @property
    def pid(self) -> int:
        return self.service.daemon.pid

    def stored(self) -> int:
        return used_bytes(self.database)


_started: dict[str, _Own] = {}
"""The servers of our own that run, by address."""


@contextmanager
def at_rest(lease: Lease) -> Iterator[sqlite3.Connection | None]:
    """Open the database with the workflows of *lease* while its server is stopped; None if it is somebody else's.

    A lock that is not its own, be it for reading, may undo the server: it takes a COMMIT that is refused for the end
    of the transaction, which SQLite keeps open, and nothing is written any more.

    Raises:
        HarnessError: the server is never between two transactions.
    """
    own = _started.get(lease.url)
    if own is None:
        yield None
        return
    with closing(sqlite3.connect(own.database, timeout=0, isolation_level=None)) as connection:
        try:
            _stop_between_transactions(own, connection)
            yield connection
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.rollback()
            os.kill(own.pid, signal.SIGCONT)


def _stop_between_transactions(own: _Own, connection: sqlite3.Connection) -> None:
    """Stop the server and begin a transaction that excludes it; where it has a lock itself, let it go on a while."""
    end = time.monotonic() + REST_SECONDS
    while True:
        os.kill(own.pid, signal.SIGSTOP)
        while not _is_stopped(own.pid):
            time.sleep(POLL_SECONDS / 10)
        try:
            connection.execute("BEGIN EXCLUSIVE")
            return
        except sqlite3.OperationalError as error:
            if time.monotonic() > end:
                raise HarnessError(f"Temporal's database {own.database} stays in use: {error}") from error
        os.kill(own.pid, signal.SIGCONT)
        time.sleep(POLL_SECONDS)


def _is_stopped(pid: int) -> bool:
    """Tell whether all threads of *pid* have stopped: a signal does not reach them all at once."""
    states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").iterdir()]
    return set(states) <= {"T"}


class RunningTemporal:
    """A server that answers at *address*; *own* is set if it is ours, *stack* undoes what was begun for it."""

    def __init__(self, address: str, own: _Own | None, stack: ExitStack) -> None:
        self._address, self._own, self._stack = address, own, stack
        self.service = own.service if own else None
        self._marks: dict[str, tuple[int, int]] = {}

    def lease(self, name: str) -> Lease:
        lease = Lease(self._address, f"{name}-")
        if self._own:
            self._marks[lease.space] = self._own.stored(), self._own.service.written_bytes()
        return lease

    def stored_bytes(self, lease: Lease) -> int:
        """Return the growth of the server's database since the lease was made: histories, states, queues, visibility.

        Everybody who uses the server has a part in that. Of somebody else's server it is the size of the histories of
        the lease's workflows as the server tells it, and nothing besides.
        """
        if self._own:
            return self._own.stored() - self._marks[lease.space][0]
        return asyncio.run(_history_bytes(lease))

    def written_bytes(self, lease: Lease) -> int:
        """Return the bytes that the server has written since the lease was made, in whole pages, for all its users.

        What somebody else's server writes is not known: it is at least the histories, which are returned.
        """
        if self._own:
            return self._own.service.written_bytes() - self._marks[lease.space][1]
        return asyncio.run(_history_bytes(lease))

    def keep(self, lease: Lease) -> None:
        return None  # no client can put a history back, and the server's database is everybody's

    def put_back(self, lease: Lease, kept: object) -> None:
        raise HarnessError("what a run has on Temporal cannot be put back")

    def release(self, lease: Lease) -> None:
        """Have the workflows deleted whose ids begin with the lease's prefix, running ones too.

        A server of our own is waited for; somebody else's does it within half a minute.
        """
        asyncio.run(_delete(lease, wait=self._own is not None))
        self._marks.pop(lease.space, None)

    def close(self) -> None:
        self._stack.close()


async def _connected(address: str) -> Client:
    from temporalio.client import Client

    try:
        return await asyncio.wait_for(Client.connect(address, namespace=NAMESPACE), CONNECT_SECONDS)
    except (RuntimeError, TimeoutError, ValueError) as error:
        raise HarnessError(f"no connection to Temporal at {address}: {error or 'it does not answer'}") from error


async def _found(client: Client, lease: Lease) -> list[WorkflowExecutionInfo]:
    """Return the workflows of *lease* that the server's index has; it lags behind by milliseconds."""
    query = f"WorkflowId STARTS_WITH '{lease.space}'"
    return [execution.raw_info async for execution in client.list_workflows(query)]


async def _history_bytes(lease: Lease) -> int:
    client = await _connected(lease.url)
    total = 0
    for info in await _found(client, lease):  # asked one by one: the index knows the size of closed ones only
        handle = client.get_workflow_handle(info.execution.workflow_id, run_id=info.execution.run_id)
        total += (await handle.describe()).raw_description.workflow_execution_info.history_size_bytes
    return total


async def _delete(lease: Lease, wait: bool) -> None:
    from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
    from temporalio.service import RPCError, RPCStatusCode

    client = await _connected(lease.url)
    end = time.monotonic() + DELETE_SECONDS
    asked: set[str] = set()
    while found := await _found(client, lease):
        if time.monotonic() > end:
            raise HarnessError(f"Temporal at {lease.url} still has {len(found)} workflows {lease.space}* to be deleted")
        for execution in (info.execution for info in found if info.execution.run_id not in asked):
            asked.add(execution.run_id)
            request = DeleteWorkflowExecutionRequest(namespace=NAMESPACE, workflow_execution=execution)
            try:
                await client.workflow_service.delete_workflow_execution(request)
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:  # the index still has what is gone
                    raise HarnessError(f"Temporal at {lease.url} does not delete a workflow: {error}") from error
        if not wait:
            return
        await asyncio.sleep(POLL_SECONDS)


def used_bytes(database: Path) -> int:
    """Return the size of the pages of a SQLite *database* that are in use, whatever its writer is doing.

    A deletion frees pages and does not shrink the file. The header (https://www.sqlite.org/fileformat2.html, 1.3) tells
    without a lock, which the server would deny us in the middle of a commit; only with a write-ahead log is the newest
    header in the log, and then readers are never denied.
    """
    with database.open("rb") as file:
        header = file.read(100)
    size = int.from_bytes(header[16:18], "big")
    pages, free = int.from_bytes(header[28:32], "big"), int.from_bytes(header[36:40], "big")
    if header[18] == WRITE_AHEAD_LOG:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            pages, free = (connection.execute(f"PRAGMA {n}").fetchone()[0] for n in ("page_count", "freelist_count"))
    return size * (pages - free)


def _start(command: Sequence[str], folder: Path, port: int) -> Daemon:
    """Start the server that *command* says; return when it answers."""
    daemon = Daemon(command, folder)
    try:
        daemon.await_ready(lambda: _listens(port) and not _refusal(f"127.0.0.1:{port}"))
    except BaseException:
        daemon.stop(signal.SIGKILL)
        raise
    return daemon


def _listens(port: int) -> bool:
    """Tell whether somebody listens: the client itself would wait longer for what is not there yet."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _refusal(address: str) -> str:
    """Return why nobody can use the server at *address*, "" if it works."""
    return asyncio.run(_refused(address))


async def _refused(address: str) -> str:
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
    from temporalio.service import RPCError

    try:
        client = await _connected(address)
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=NAMESPACE))
    except (HarnessError, RPCError) as error:
        return str(error)
    return ""
