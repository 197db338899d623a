"""strace on processes that run already: which of their system calls fail, as the kernel says it.

It is attached from outside while the agent is held at a point, and slows it down only while it is attached.

Where the kernel does not let this user attach it (yama's ptrace_scope), a helper container's root does, through Docker.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.errors import HarnessError
from chaos.sandbox.mounts import undone

if TYPE_CHECKING:
    from chaos.sandbox.docker.helper import Program

ATTACH_SECONDS = 10.0  # it takes milliseconds
DETACH_SECONDS = 5.0
POLL_SECONDS = 0.002
NEEDED = ("write", "pwrite64", "writev", "pwritev", "pwritev2", "openat", "mkdirat", "renameat2", "linkat")
"""Calls that take space. Those with a question mark do not exist on every architecture."""
OLD = ("open", "creat", "mkdir", "rename", "renameat", "link", "symlink", "mknod")
ALSO = ("symlinkat", "mknodat", "ftruncate", "truncate", "fallocate", "fsync", "fdatasync", "msync", "copy_file_range")
LINE = re.compile(r"^(?P<pid>\d+) +(?P<call>\w+)\((?P<arguments>.*)\) += -1 (?P<error>E[A-Z0-9]+) .*$", re.MULTILINE)


@functools.cache
def missing() -> str:
    """Return what keeps us from attaching strace to a process, and the remedy; "" if nothing. It is tried once."""
    if not shutil.which("strace"):
        return "no strace on the PATH: apt-get install strace"
    if not (refusal := _refusal()):
        return ""
    remedy = "run as root, or allow it (CAP_SYS_PTRACE, sysctl kernel.yama.ptrace_scope=0)"
    if os.geteuid() == 0:  # root in a container has no more than root here
        return f"{refusal}; {remedy}"
    return f"{refusal}; {remedy}, or use Docker: {helpless}" if (helpless := _helpless()) else ""


@functools.cache
def _refusal() -> str:
    """Return why we cannot attach it ourselves."""
    return _tried(by_helper=False)


@functools.cache
def _helpless() -> str:
    """Return why a helper container cannot, either."""
    from chaos.sandbox.docker import helper

    return helper.missing() or _tried(by_helper=True)


def _tried(*, by_helper: bool) -> str:
    # Like an agent, it is no child of the process that strace is started by.
    sleeper = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        Trace(Path(os.devnull), [sleeper.pid], by_helper=by_helper).close()
    except HarnessError as error:
        return str(error)
    finally:
        sleeper.kill()
        sleeper.wait()
    return ""


class Trace:
    """strace attached to *pids*, their threads and all that they start, until it is closed; failed calls go to *log*.

    Args:
        by_helper: root in a container does it; None: where we may not.

    Raises:
        HarnessError: it could not be attached, with what strace says.
    """

    def __init__(self, log: Path, pids: Collection[int], *, by_helper: bool | None = None) -> None:
        self._log = log
        traced = ",".join((*NEEDED, *(f"?{name}" for name in (*OLD, *ALSO))))
        command = ["strace", "-f", "-o", os.fspath(log), "-e", f"trace={traced}", "-e", "status=failed", "-y"]
        command += [word for pid in pids for word in ("-p", str(pid))]
        self._said = open(os.memfd_create("strace"), "w+b")  # noqa: SIM115 (closed by close)
        with undone(self._said.close):
            self._process = self._started(command, bool(_refusal()) if by_helper is None else by_helper)
        with undone(self.close):
            self._await(set(pids))

    def _started(self, command: list[str], by_helper: bool) -> subprocess.Popen[bytes] | Program:
        if by_helper:
            from chaos.sandbox.docker.helper import Program

            return Program(command, self._said.fileno())
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            start_new_session=True,
        )

    def _await(self, pids: Collection[int]) -> None:
        """Wait until strace says of each process that it is attached, and the kernel of each thread, too."""
        deadline = time.monotonic() + ATTACH_SECONDS
        while not all(f"Process {pid} attached" in self._words() and _traced(pid) for pid in pids):
            if self._process.poll() is not None:
                raise HarnessError(f"strace cannot be attached: {'; '.join(self._words().splitlines())}")
            if time.monotonic() > deadline:
                raise HarnessError(f"strace was not attached within {ATTACH_SECONDS:g} s")
            time.sleep(POLL_SECONDS)

    def failures(self, error: int) -> list[str]:
        """Return the lines of the log whose call failed with *error*, so far."""
        name = errno.errorcode[error]
        text = self._log.read_text(errors="replace") if self._log.is_file() else ""
        return [found[0] for found in LINE.finditer(text) if found["error"] == name]

    def close(self) -> None:
        """Detach it; the processes go on. May be called twice."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(DETACH_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()

    def _words(self) -> str:
        """Return what strace said so far."""
        size = os.fstat(self._said.fileno()).st_size
        return os.pread(self._said.fileno(), size, 0).decode(errors="replace").strip()


def _traced(pid: int) -> bool:
    """Tell whether all threads of *pid* have a tracer; a process that is gone needs none."""
    return all(tracer != 0 for tracer in _tracers(pid))


def _tracers(pid: int) -> Iterator[int]:
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        try:
            found = re.search(r"^TracerPid:\s*(\d+)$", status.read_text(), re.MULTILINE)
        except OSError:
            continue
        yield int(found[1]) if found else 0
