"""One life of an agent: the launcher's other end (see launcher.py), the agent's output, its status."""

from __future__ import annotations

import collections
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.errors import HarnessError
from chaos.sandbox import warm
from chaos.sandbox.processes import descendants

LAUNCHER = Path(__file__).with_name("launcher.py")
START_SECONDS = 30.0  # a launcher needs 0.02 s; this long means that the machine is beyond use
ABANDON_SECONDS = 5.0  # a launcher that lost its harness's end is gone in milliseconds
LOG_BYTES = 64 * 1024  # kept of the output: the last lines tell why an agent died, a flood tells nothing
LOG_LINES = 200  # of these, handed out
READ_BYTES = 64 * 1024  # what a pipe holds
NO_ENV: Mapping[str, str] = {}


def order(
    mode: str,
    hostname: str,
    cgroups: Sequence[Path],
    command: Sequence[str],
    env: Mapping[str, str],
    filter: bytes = b"",
) -> list[bytes]:
    """Return the fields of a launcher's order (see launcher.Order)."""
    variables = [f"{name}={value}" for name, value in env.items()]
    counts = (str(len(cgroups)), str(len(command)))
    fields = [mode, hostname, filter.hex(), *counts, *map(str, cgroups), *command, *variables]
    if broken := [field for field in fields if "\0" in field]:
        raise HarnessError(f"a command or variable holds a NUL character: {broken[0]!r}")
    return [os.fsencode(field) for field in fields]


def _launch(
    order: Sequence[bytes], control: int, output: int, cwd: Path, modules: Sequence[str], env: Mapping[str, str]
) -> subprocess.Popen[bytes] | warm.Forked:
    """Start a launcher: a new interpreter, or a fork of one that has *modules* and suits *env*.

    Where that has the right to make namespaces, it forks the agent itself, and is its launcher.
    """
    if modules:
        mode, _, _, cgroups, _, *rest = order
        server, place = warm.server(modules, env), os.fsencode(cwd)
        if mode == b"direct":
            return server.start_agent(place, rest[: int(cgroups)], control, output)
        return server.start("launch", place, control, output, output)
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(LAUNCHER), str(control), str(os.getpid())],
        env={},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=[control],
        start_new_session=True,
    )


class Incarnation:
    """One life of the agent: its launcher, its pidfd, its output, and in the end its status.

    Args:
        order: what to start (see `order`).
        cwd: the folder that it starts in.
        modules: what it finds imported; its command is then `python -m MODULE ARGUMENT...`.
        env: its environment, for what only counts when a program starts.
    """

    def __init__(
        self, order: Sequence[bytes], cwd: Path, modules: Sequence[str] = (), env: Mapping[str, str] = NO_ENV
    ) -> None:
        self.status: int | None = None
        self.features: frozenset[str] = frozenset()
        self.pid, self._pidfd = 0, -1
        self.listener = -1  # of its seccomp filter, if it has one; whoever takes it closes it
        self._log: collections.deque[bytes] = collections.deque()
        self._log_bytes = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._control, theirs = socket.socketpair()
        self._output, output = os.pipe()
        with theirs:
            self._launcher = _launch(order, theirs.fileno(), output, cwd, modules, env)
        os.close(output)
        self._control.settimeout(START_SECONDS)
        try:
            self._begin(b"\0".join(order))
        except BaseException:
            self._abandon()
            raise
        self._control.settimeout(None)
        threading.Thread(target=self._attend, name=f"sandbox-{self.pid}", daemon=True).start()

    def _abandon(self) -> None:
        """End what was begun, the launcher last: an agent orphaned by it would keep the cgroup busy as a zombie."""
        self._control.close()  # ends an agent that was not told to begin
        if self.listener >= 0:
            os.close(self.listener)
        self.signal(signal.SIGKILL)  # ends one that was
        try:
            self._launcher.wait(ABANDON_SECONDS)
        except subprocess.TimeoutExpired:
            self._launcher.kill()
        self._finish(None)

    def _begin(self, order: bytes) -> None:
        try:
            self._control.sendall(b"%d\n%s" % (len(order), order))
            word, *rest = self._hear()
            if word == "pid":
                self.pid, self.features = int(rest[0]) or self._launcher.pid, frozenset(rest[1:])
                self._pidfd = os.pidfd_open(self.pid)
                self._control.sendall(b"g")
                word, *rest = self._hear()
                if word == "listener":
                    word, *rest = self._hear()
        except TimeoutError:
            raise HarnessError(f"nothing was started within {START_SECONDS:g} s") from None
        except ConnectionError:
            word, rest = "", []
        if word != "running":
            self._drain()
            raise HarnessError(" ".join(rest) or f"the launcher ended: {self.log() or 'it printed nothing'}")

    def _hear(self) -> list[str]:
        """Return the words of the launcher's next line; [""] when it is gone."""
        line = b""
        while not line.endswith(b"\n"):
            try:
                byte, files, _, _ = socket.recv_fds(self._control, 1, 1)
                self.listener = files[0] if files else self.listener
            except ConnectionError:
                byte = b""
            if not byte:
                break
            line += byte
        return line.decode().split() or [""]

    def _attend(self) -> None:
        """Take in output until the launcher reports the end."""
        status = None
        try:
            poller = select.poll()
            poller.register(self._control, select.POLLIN)
            poller.register(self._output, select.POLLIN)
            while self._control.fileno() not in (ready := dict(poller.poll())):
                if self._output in ready and not self._take():
                    poller.unregister(self._output)
            word, *rest = self._hear()
            if word == "exit":
                status = int(rest[0])
            else:  # someone killed the launcher, and the kernel the agent with it
                self.signal(signal.SIGKILL)
                _wait_readable(self._pidfd)
            self._drain()
        finally:  # whatever happens here, nobody may wait in vain
            self._finish(status)

    def _take(self) -> bool:
        chunk = os.read(self._output, READ_BYTES)
        with self._lock:
            self._log.append(chunk)
            self._log_bytes += len(chunk)
            while self._log_bytes - len(self._log[0]) >= LOG_BYTES:
                self._log_bytes -= len(self._log.popleft())
        return bool(chunk)

    def _drain(self) -> None:
        """Take in what is left in the pipe; nobody writes to it any more."""
        os.set_blocking(self._output, False)
        try:
            while self._take():
                pass
        except BlockingIOError:
            pass

    def _finish(self, status: int | None) -> None:
        self._launcher.wait()
        os.close(self._output)
        self._control.close()
        with self._lock:
            if self._pidfd >= 0:
                os.close(self._pidfd)
                self._pidfd = -1
        self.status = status
        self._ended.set()

    @property
    def pids(self) -> set[int]:
        """The live processes of the tree. Orphans go to pid 1 of the namespace, or else to the launcher."""
        return ({self.pid} if self.alive else set()) | descendants(self._launcher.pid)

    @property
    def alive(self) -> bool:
        return not self._ended.is_set()

    def wait(self, timeout: float | None) -> bool:
        """Return whether it ended within *timeout* seconds."""
        # A wait makes a lock, which a look does without.
        return self._ended.is_set() or (timeout != 0.0 and self._ended.wait(timeout))

    def signal(self, number: int) -> None:
        """Signal the first process, surely no other one; nothing happens if it is gone."""
        with self._lock, contextlib.suppress(ProcessLookupError):
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, number)

    def log(self) -> str:
        with self._lock:
            text = b"".join(self._log)[-LOG_BYTES:].decode(errors="replace")
        return "\n".join(text.splitlines()[-LOG_LINES:])


def _wait_readable(file: int) -> None:
    """Wait for *file*; a pidfd becomes readable when its process has ended."""
    poller = select.poll()  # select.select refuses numbers from 1024 on
    poller.register(file, select.POLLIN)
    poller.poll()
