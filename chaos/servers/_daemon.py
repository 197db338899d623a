"""A server program as our child: on a port of 127.0.0.1, and gone when we are, however we end.

It is started by the sandbox's launcher, the way an agent is: as pid 1 of its own namespaces where the machine allows,
watched by a process that kills the whole tree when the harness dies of SIGKILL.
"""

from __future__ import annotations

import os
import pwd
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from chaos.errors import HarnessError
from chaos.sandbox.incarnation import Incarnation, order

READY_SECONDS = 60.0  # servers answer within a second; recovery tests of ours share two cores with builds
POLL_SECONDS = 0.02
STOP_SECONDS = 10.0  # for a clean end; what is on disk is removed anyway
LOG_LINES = 5  # of what the server said last: enough for its reason


class Daemon:
    """One running server.

    Args:
        command: the program and its arguments.
        folder: its working directory.
        user: the user of the operating system to run it as; None: as ourselves.

    Raises:
        HarnessError: it cannot be executed.
    """

    def __init__(self, command: Sequence[str], folder: Path, user: pwd.struct_passwd | None = None) -> None:
        self.name = Path(command[0]).name
        self._process = _begin(become(user, command), folder, () if user else ("user",))

    @property
    def pid(self) -> int:
        """The server's first process, by the number that it has here."""
        return self._process.pid

    def await_ready(self, answers: Callable[[], bool]) -> None:
        """Return when it *answers*.

        Raises:
            HarnessError: it ended, or did not answer in time; with what it said last.
        """
        end = time.monotonic() + READY_SECONDS
        while not answers():
            if not self._process.alive:
                raise HarnessError(f"{self.name} ended with status {self._process.status}: {self._said()}")
            if time.monotonic() > end:
                raise HarnessError(f"{self.name} does not answer after {READY_SECONDS:g} s: {self._said()}")
            time.sleep(POLL_SECONDS)

    def written_bytes(self) -> int:
        """Return the bytes that it and its ended children have caused to be written to a disk, in whole pages.

        These are the kernel's `write_bytes` (proc(5), /proc/PID/io), which counts none for a file system in memory.
        """
        lines = Path(f"/proc/{self.pid}/io").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes:"))

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Ask it by the signal *number* to end, then kill what is left of it. May be called twice."""
        self._process.signal(number)
        if not self._process.wait(STOP_SECONDS):
            self._process.signal(signal.SIGKILL)
            self._process.wait(STOP_SECONDS)

    def kill(self) -> int:
        """SIGKILL it, with all its processes, and return its status.

        Raises:
            HarnessError: it does not end.
        """
        self._process.signal(signal.SIGKILL)
        if not self._process.wait(STOP_SECONDS) or self._process.status is None:
            raise HarnessError(f"{self.name} did not end within {STOP_SECONDS:g} s of SIGKILL (uninterruptible I/O?)")
        return self._process.status

    def _said(self) -> str:
        return " | ".join(self._process.log().splitlines()[-LOG_LINES:]) or "it printed nothing"


class Service:
    """A server of ours that may be killed and started again, on the same port and the same data.

    Args:
        begin: starts it and returns when it answers.
    """

    def __init__(self, begin: Callable[[], Daemon]) -> None:
        self._begin = begin
        self._written = 0  # by those that are dead
        self.daemon = begin()
        self._here = threading.Event()
        self._here.set()

    @property
    def away(self) -> bool:
        """It was killed, and does not answer again yet."""
        return not self._here.is_set()

    def await_back(self) -> None:
        """Return when it answers.

        Raises:
            HarnessError: it was killed, and does not come back in time.
        """
        if not self._here.wait(READY_SECONDS):
            raise HarnessError(f"{self.daemon.name} was killed and is not back after {READY_SECONDS:g} s")

    def written_bytes(self) -> int:
        """Return what all its lives have written (see `Daemon.written_bytes`)."""
        return self._written + (0 if self.away else self.daemon.written_bytes())

    def kill(self) -> tuple[int, int]:
        """SIGKILL it, and return the number that its first process had and the status that it ended with."""
        pid = self.daemon.pid
        self._written = self.written_bytes()
        self._here.clear()
        return pid, self.daemon.kill()

    def restart(self) -> tuple[int, float]:
        """Start it again and return its new number, and how many seconds its recovery took."""
        if not self.away:
            return self.daemon.pid, 0.0
        began = time.monotonic()
        while True:
            try:
                self.daemon = self._begin()
                break
            except HarnessError:  # without a namespace of their own the dead one's children may still be there
                if time.monotonic() - began > STOP_SECONDS:
                    raise
        self._here.set()
        return self.daemon.pid, time.monotonic() - began

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Ask it by the signal *number* to end (see `Daemon.stop`)."""
        self.daemon.stop(number)


def become(user: pwd.struct_passwd | None, command: Sequence[str]) -> list[str]:
    """Return the command that becomes *user*; it must set the signal of its parent's death again, which that clears."""
    if user is None:
        return list(command)
    ids = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--pdeathsig=KILL")
    return ["setpriv", *ids, "--", *command]


def _begin(command: Sequence[str], folder: Path, inner: tuple[str, ...]) -> Incarnation:
    """Start *command* in the best of the launcher's modes.

    A user namespace (*inner*) knows one user only, so that nobody can become another one in it.
    """
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "LC_ALL": "C"}
    failure = HarnessError()
    for mode in ("direct", *inner, "none"):
        try:
            return Incarnation(order(mode, "server", (), command, env), folder)
        except HarnessError as error:
            failure = error
    raise HarnessError(f"cannot start {' '.join(command)} in {folder}: {failure}")
