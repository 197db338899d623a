"""A server program as our child: on a port of 127.0.0.1, and gone when we are, however we end.

It is started by the sandbox's launcher, the way an agent is: as pid 1 of its own namespaces where the machine allows,
watched by a process that kills the whole tree when the harness dies of SIGKILL.
"""

from __future__ import annotations

import os
import pwd
import signal
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

    def _said(self) -> str:
        return " | ".join(self._process.log().splitlines()[-LOG_LINES:]) or "it printed nothing"


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
