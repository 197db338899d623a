"""One incarnation in a container: from the order that makes pid 1 the agent to the exact status that it ends with."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from chaos.errors import HarnessError
from chaos.sandbox import cgroup
from chaos.sandbox.docker import engine, memory
from chaos.sandbox.docker.entry import LENGTH_BYTES
from chaos.sandbox.docker.output import Output
from chaos.sandbox.incarnation import START_SECONDS

PEER_SECONDS = 0.2  # between two looks whether a container that has not called yet is still there
SIGNALLED = 128  # what Docker adds to the signal that ended pid 1
LAST_SIGNAL = 64
GET_INFO, INFO_EXIT, INFO_BYTES = 0xC040FF0B, 1 << 3, 64  # PIDFD_GET_INFO, see linux/pidfd.h
EXIT_CODE_AT = 60  # offset of exit_code in struct pidfd_info


@dataclass(frozen=True)
class Order:
    """What pid 1 is to become (see entry.py): *folders* are made if they are gone."""

    command: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    folders: Sequence[str]
    umask: int


class Caller:
    """The socket at which containers ask for their orders; one for each sandbox."""

    def __init__(self) -> None:
        self.name = f"{engine.owner()}-{os.urandom(8).hex()}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind("\0" + self.name)
        self._listener.listen()
        self._listener.settimeout(PEER_SECONDS)

    def accept(self, container: str) -> tuple[socket.socket, int]:
        """Return the connection of pid 1 of *container*, and its number on the host; nobody else is let in."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with suppress(TimeoutError):
                connection, _ = self._listener.accept()
                connection.settimeout(START_SECONDS)
                pid, *_ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
                if pid == state(container)["Pid"]:
                    return connection, pid
                connection.close()
                continue
            if not state(container)["Running"]:
                raise HarnessError("its first program ended before it asked for its order; is this Python in there?")
        raise HarnessError(f"it did not ask for its order within {START_SECONDS:g} s")

    def close(self) -> None:
        self._listener.close()


def state(container: str) -> dict[str, Any]:
    """Return what the engine says about the present state of *container*."""
    with engine.asking(f"inspect the container {container}"):
        found: dict[str, Any] = engine.client().api.inspect_container(container)["State"]
    return found


class Life:
    """One life of the agent in *container*, which is not running yet.

    Args:
        outputs: where its standard output and standard error go; the same one may take both.
    """

    def __init__(self, container: str, caller: Caller, order: Order, outputs: tuple[Output, Output]) -> None:
        self.container = container
        self.status: int | None = None
        self.oom_killed = False
        self.pid, self._pidfd = 0, -1
        self.group: cgroup.Cgroup | None = None  # None too where this user cannot read it
        self._counted = 0
        self._outputs = outputs
        try:
            with engine.asking(f"start the container {container}"):
                engine.client().api.start(container)
            connection, self.pid = caller.accept(container)
            with connection:
                self._pidfd = os.pidfd_open(self.pid)
                self.group = memory.group_of(self.pid)
                self._begin(connection, order)
        except BaseException:
            self._abandon()
            raise
        for output in outputs:
            output.begun()
        self._readers = [threading.Thread(target=one.take_all, daemon=True) for one in set(outputs)]
        for reader in self._readers:
            reader.start()

    def _abandon(self) -> None:
        """End what was begun; the container can be started again."""
        from docker.errors import APIError

        if self._pidfd >= 0:
            os.close(self._pidfd)
        for output in self._outputs:
            output.begun()
            output.close()
        with suppress(APIError):  # it may have ended, or never begun
            engine.client().api.kill(self.container)
        with engine.asking(f"end the container {self.container}"):
            engine.client().api.wait(self.container, timeout=engine.SECONDS)

    def _begin(self, connection: socket.socket, order: Order) -> None:
        body = json.dumps(asdict(order)).encode()
        head = len(body).to_bytes(LENGTH_BYTES, "big")
        try:
            socket.send_fds(connection, [head], [output.writer for output in self._outputs])
            connection.sendall(body)
            failure = connection.recv(4096).decode()
        except (OSError, UnicodeDecodeError) as error:
            failure = f"its order did not arrive ({error})"
        if failure:
            raise HarnessError(failure)

    @property
    def alive(self) -> bool:
        return not self.wait(0.0)

    def wait(self, timeout: float | None) -> bool:
        """Return whether it ended within *timeout* seconds: pid 1 goes last, so nothing of its tree is left then."""
        if self.status is not None:
            return True
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        if not poller.poll(None if timeout is None else timeout * 1000):
            return False
        self._settle()
        return True

    def _settle(self) -> None:
        """Take in what the kernel and the engine know about the end."""
        counted = self._count()  # at once: the engine is about to remove the cgroup
        with engine.asking(f"wait for the end of the container {self.container}"):
            code: int = engine.client().api.wait(self.container, timeout=engine.SECONDS)["StatusCode"]
        self.oom_killed = bool(state(self.container)["OOMKilled"])
        for reader in self._readers:
            reader.join()  # nobody is left who could write
        exact = _exit_status(self._pidfd)
        status = self._decoded(code) if exact is None else exact
        if self.oom_killed and counted is None and status == -signal.SIGKILL:
            self._counted += 1  # the cgroup was faster
        self.status = status
        os.close(self._pidfd)
        self._pidfd = -1

    def _count(self) -> int | None:
        """Return the kernel's counter of OOM kills in this life; None where it cannot be read, or not any more."""
        if self.group is None:
            return None
        try:
            self._counted = self.group.oom_kills()
        except OSError:
            self.group = None
            return None
        return self._counted

    def oom_kills(self) -> int:
        """Return how many processes the kernel's OOM killer has ended in this life."""
        if self.status is None:
            self._count()
        return self._counted

    def _decoded(self, code: int) -> int:
        """Return the status behind the engine's *code*, which has 128 + N for signal N.

        Pid 1 dies of few signals: SIGKILL, and those of its own faults. An exit code that looks like one of these is
        taken for it; kernels from 6.15 on tell the two apart.
        """
        signals = {signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP}
        return SIGNALLED - code if code - SIGNALLED in {*signals, signal.SIGSYS, signal.SIGABRT} else code

    def signal(self, number: int) -> None:
        """Signal the first process, surely no other one; nothing happens if it is gone."""
        if self._pidfd < 0:
            return
        try:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)
        except PermissionError:  # an agent that changed its user
            with engine.asking(f"signal the container {self.container}"):
                engine.client().api.kill(self.container, int(number))


def _exit_status(pidfd: int) -> int | None:
    """Return how the ended process of *pidfd* ended, if this kernel keeps that (Linux 6.15)."""
    info = bytearray(INFO_BYTES)
    struct.pack_into("Q", info, 0, INFO_EXIT)
    try:
        fcntl.ioctl(pidfd, GET_INFO, info)
    except OSError:
        return None
    (mask,) = struct.unpack_from("Q", info)
    (code,) = struct.unpack_from("i", info, EXIT_CODE_AT)
    return os.waitstatus_to_exitcode(code) if mask & INFO_EXIT else None
