"""Warm starts: fork servers of this process (see forkserver.py), one for each set of modules that agents import."""

from __future__ import annotations

import atexit
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from chaos import clock
from chaos.errors import HarnessError

IMPORT_SECONDS = 60.0  # the heaviest runtime takes 1.5 s, a swamped CI machine twenty times that
MAX_SERVERS = 3  # of 60 to 150 MB each; the cells of a strategy come one after the other
KEPT = ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV", "HOME")


class Forked:
    """A process that a fork server started: as much of `subprocess.Popen` as its users need."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._pidfd = os.pidfd_open(pid)  # it waits for its order, so the number is still its own

    @property
    def alive(self) -> bool:
        poller = select.poll()
        if self._pidfd >= 0:
            poller.register(self._pidfd, select.POLLIN)
        return self._pidfd >= 0 and not poller.poll(0)

    def wait(self, timeout: float | None = None) -> None:
        """Wait for its end; raise subprocess.TimeoutExpired after *timeout* seconds."""
        if self._pidfd < 0:
            return
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        if not poller.poll(None if timeout is None else timeout * 1000):
            raise subprocess.TimeoutExpired("fork server's child", timeout or 0.0)
        os.close(self._pidfd)
        self._pidfd = -1

    def kill(self) -> None:
        """SIGKILL it, surely no other process."""
        if self._pidfd >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)


class ForkServer:
    """A process that has *modules* imported, started with the variables *preload* as well."""

    def __init__(self, modules: Sequence[str], preload: Mapping[str, str]) -> None:
        self._agents: list[Forked] = []
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "chaos.sandbox.forkserver", str(theirs.fileno()), *modules],
                env={
                    **{name: os.environ[name] for name in KEPT if name in os.environ},
                    "LANGSMITH_TRACING": "false",
                    **preload,
                },
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._control.settimeout(IMPORT_SECONDS)
        if self._hear() == b"threads":
            raise HarnessError(f"importing {', '.join(modules)} starts threads, which no fork has; use --chaos-cold")

    def start(self, kind: str, folder: bytes, control: int, output: int, errors: int) -> Forked:
        """Fork a child of *kind* in *folder* that has the files *control*, *output* and *errors*."""
        return Forked(self._ask(kind, folder, control, output, errors))

    def start_agent(self, folder: bytes, cgroups: Sequence[bytes], control: int, output: int) -> Forked:
        """Fork an agent, to live in *cgroups*; it ends with this server."""
        self._agents = [agent for agent in self._agents if agent.alive]
        self._agents.append(self.start("agent", b"\0".join((folder, *cgroups)), control, output, output))
        return self._agents[-1]

    def status(self, child: Forked) -> int:
        """Return how *child* ended, which was to read: its exit code, or minus the signal."""
        return self._ask("ended", b"%d" % child.pid)

    def _ask(self, kind: str, what: bytes, *files: int) -> int:
        message = b"\n".join((kind.encode(), b"%d" % os.getpid(), what))
        try:
            socket.send_fds(self._control, [message], files)
            return int(self._hear())
        except (OSError, ValueError) as error:
            self.close()
            raise HarnessError(f"the fork server is gone: {error}") from error
        except BaseException:  # an interrupt: the answer that is still to come must not be taken for the next one's
            self.close()
            raise

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def busy(self) -> bool:
        """Whether an agent of it is alive."""
        return any(agent.alive for agent in self._agents)

    def close(self) -> None:
        """End the server, and with it its agents."""
        self._control.close()
        self._process.kill()
        self._process.wait()

    def _hear(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            byte = self._control.recv(1)
            if not byte:
                raise HarnessError("the fork server ended; what it printed tells why")
            line += byte
        return line.strip()


_servers: OrderedDict[tuple[str, ...], ForkServer] = OrderedDict()


def server(modules: Sequence[str], env: Mapping[str, str] | None = None) -> ForkServer:
    """Return the fork server that has *modules*; the least recently used idle one goes when there are too many.

    Args:
        env: of the agent to be: what a program only heeds when it starts, a library that is preloaded, its server has.
    """
    preload = {name: env[name] for name in (*clock.AT_START, clock.SHARED_NAMES) if name in env} if env else {}
    key = (*modules, *(f"{name}={value}" for name, value in preload.items() if name != clock.SHARED_NAMES))
    if key in _servers and not _servers[key].alive:
        _servers.pop(key).close()
    if key not in _servers:
        for old in [old for old, made in _servers.items() if not made.busy][: max(0, len(_servers) - MAX_SERVERS + 1)]:
            _servers.pop(old).close()
        _servers[key] = ForkServer(modules, preload)
    _servers.move_to_end(key)
    return _servers[key]


def close_all() -> None:
    """End all fork servers of this process."""
    while _servers:
        _servers.popitem()[1].close()


atexit.register(close_all)


def run(modules: Sequence[str], order: Sequence[bytes], folder: Path, timeout: float) -> tuple[int, bytes, bytes]:
    """Run the command of *order* in *folder* from the fork server with *modules*.

    Returns:
        (status, output, errors).

    Raises:
        subprocess.TimeoutExpired: it took more than *timeout* seconds, and was killed.
    """
    control, theirs = socket.socketpair()
    with control, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        forking = server(modules)
        with theirs:
            child = forking.start("read", os.fsencode(folder), theirs.fileno(), output.fileno(), errors.fileno())
        body = b"\0".join(order)
        try:
            control.sendall(b"%d\n%s" % (len(body), body))
            child.wait(timeout)
        except BaseException:  # its number is its own until its server is asked for its status
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # it made a session of its own
            child.kill()
            child.wait()
            forking.status(child)
            raise
        status = forking.status(child)
        output.seek(0)
        errors.seek(0)
        return status, output.read(), errors.read()
