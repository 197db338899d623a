"""Memory cgroups, version 1 and 2, behind one interface: a limit, a counter of OOM kills, and an OOM kill on demand.

Every write to a kernel file is one system call (`put`): an error at close would be lost.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path

from chaos.errors import HarnessError

CLAMP_ATTEMPTS = 50  # v1 refuses a limit below the usage; an agent that grows meanwhile makes us read again
TRIGGER_ATTEMPTS = 5  # v1: a trigger may be fed from memory that was freed just now
TRIGGER_SECONDS = 10.0  # v1: the trigger needs 20 ms; the kernel's report on a slow console takes longest
REMOVE_SECONDS = 5.0  # a killed process leaves its cgroup when the kernel has torn it down
TRIGGER_BYTES = 8 << 20  # v1: what the trigger asks for beyond the limit; more than caches of the CPUs hide
FLOOR_BYTES = 32 << 20  # v1: oom_score_adj weighs relative to the limit; with less a tiny agent outlives the trigger
TRIGGER = """
import os, sys
folder, size = sys.argv[1], int(sys.argv[2])
file, page = os.memfd_create("trigger"), bytes(4096)
counter = os.open(folder + "/memory.oom_control", os.O_RDONLY)
os.write(os.open(folder + "/cgroup.procs", os.O_WRONLY), b"0")
before = os.pread(counter, 999, 0)
while size > 0 and os.pread(counter, 999, 0).split()[-1] == before.split()[-1]:
    size -= os.write(file, page * 16 if size > 9 << 20 else page)  # page by page where it must happen
"""


class Cgroup(ABC):
    """One cgroup for one sandbox, over all incarnations of its agent.

    Args:
        folders: its folder in each hierarchy, memory first.
    """

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self.folders = folders
        self.memory = folders[0]

    def make(self) -> None:
        """Make its folders."""
        for folder in self.folders:
            folder.mkdir()

    @property
    def procs(self) -> tuple[Path, ...]:
        """The files that list its processes; one that writes "0" to them joins."""
        return tuple(folder / "cgroup.procs" for folder in self.folders)

    @property
    def joins(self) -> tuple[Path, ...]:
        """The files by which a process of one thread joins, at the least cost, writing "0" to them."""
        return self.procs

    def pids(self) -> set[int]:
        """Return the numbers of its processes, as we see them; 0 for those that we cannot see."""
        found = set[int]()
        for file in self.procs:
            with contextlib.suppress(FileNotFoundError):
                found.update(map(int, file.read_text().split()))
        return found

    def limit_pids(self, count: int) -> None:
        """Allow *count* processes and threads, where the pids controller is there."""
        for folder in self.folders:
            if (folder / "pids.max").exists():
                put(folder / "pids.max", count)

    def kill(self) -> None:
        """SIGKILL what is in it until nothing is left, for `REMOVE_SECONDS` at most."""
        deadline = time.monotonic() + REMOVE_SECONDS
        while (pids := self.pids() - {0}) and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                self.limit_pids(0)  # or a fork bomb would outrun us
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)

    def remove(self) -> None:
        """Kill what is in it and remove it. May be called twice."""
        self.kill()
        deadline = time.monotonic() + REMOVE_SECONDS
        for folder in self.folders:
            while folder.exists():
                try:
                    folder.rmdir()
                except OSError as error:
                    if error.errno != errno.EBUSY:
                        raise
                    if time.monotonic() > deadline:
                        raise HarnessError(f"the cgroup {folder} stays busy; end the processes in it") from error
                    time.sleep(0.002)

    @abstractmethod
    def set_limit(self, memory_bytes: int) -> None:
        """Limit memory to *memory_bytes*, swap off; 0: no limit."""

    @abstractmethod
    def limit(self) -> int:
        """Return the limit in force, bytes."""

    @abstractmethod
    def usage(self) -> int:
        """Return what is charged to it now, bytes, page cache included."""

    @abstractmethod
    def oom_kills(self) -> int:
        """Return how many processes of it the kernel's OOM killer has ended."""

    @abstractmethod
    def squeeze(self, limit_bytes: int | None) -> int:
        """Lower the limit so that the kernel has to kill; return the limit that was in force.

        None: to where it must kill. Whether it did shows in *oom_kills*; the caller restores the limit.
        """


class CgroupV1(Cgroup):
    """Version 1: a limit below the usage is refused and nothing is killed, so clamp and trigger."""

    @property
    def joins(self) -> tuple[Path, ...]:
        # A thread that moves itself alone needs no lock on all forks of the machine (cgroup_procs_write_start in
        # kernel/cgroup/cgroup.c), and taking that one waits for RCU: 7 to 20 ms. Version 2 has no such file.
        return tuple(folder / "tasks" for folder in self.folders)

    def set_limit(self, memory_bytes: int) -> None:
        with contextlib.suppress(OSError):
            put(self.memory / "memory.swappiness", 0)
        put(self.memory / "memory.limit_in_bytes", memory_bytes or -1)

    def limit(self) -> int:
        return _number(self.memory / "memory.limit_in_bytes")

    def usage(self) -> int:
        return _number(self.memory / "memory.usage_in_bytes")

    def oom_kills(self) -> int:
        return _counter(self.memory / "memory.oom_control")

    def squeeze(self, limit_bytes: int | None) -> int:
        before = self.oom_kills()
        if limit_bytes is not None and self._clamp(limit_bytes) and limit_bytes - self.usage() > TRIGGER_BYTES:
            limit = self.limit()
            self._trigger(TRIGGER_BYTES)
            return limit
        for _ in range(TRIGGER_ATTEMPTS):
            usage = self._clamp_to_usage()
            limit = self.limit()
            self._trigger(limit - usage + TRIGGER_BYTES)
            if self.oom_kills() > before:
                break
        return limit

    def _clamp(self, limit_bytes: int) -> bool:
        """Set the limit, False if the usage is above it. Trying makes the kernel drop page cache first."""
        try:
            put(self.memory / "memory.limit_in_bytes", limit_bytes)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True

    def _clamp_to_usage(self) -> int:
        """Lower the limit to the usage (`FLOOR_BYTES` at least), and return the usage."""
        self._clamp(0)  # refused, but now no page cache is left that could feed the trigger
        for _ in range(CLAMP_ATTEMPTS):
            usage = self.usage()
            if self._clamp(max(usage, FLOOR_BYTES)):
                return usage
        raise HarnessError(f"{self.memory} grew faster than its limit could be lowered to its usage")

    def _trigger(self, size: int) -> None:
        """Have a process in the cgroup ask for *size* bytes, so that the kernel has to pick a victim.

        It asks for pages of an unmapped memory file: they do not count as its own when victims are weighed. It
        stops at the first kill: a small agent gives back less than it wants.
        """
        trigger = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", TRIGGER, str(self.memory), str(size)],
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):  # no kill, then: the caller reads the counter
                trigger.wait(TRIGGER_SECONDS)
        finally:
            trigger.kill()
            trigger.wait()


class CgroupV2(Cgroup):
    """Version 2: a limit below the usage makes the kernel kill at once."""

    def set_limit(self, memory_bytes: int) -> None:
        with contextlib.suppress(FileNotFoundError):  # kernel without swap accounting
            put(self.memory / "memory.swap.max", 0)
        put(self.memory / "memory.oom.group", 1)  # the whole tree dies, as in Kubernetes
        put(self.memory / "memory.max", memory_bytes or "max")

    def kill(self) -> None:
        if (self.memory / "cgroup.kill").exists():  # since 5.14; at once
            put(self.memory / "cgroup.kill", 1)
        super().kill()

    def limit(self) -> int:
        return _number(self.memory / "memory.max")

    def usage(self) -> int:
        return _number(self.memory / "memory.current")

    def oom_kills(self) -> int:
        return _counter(self.memory / "memory.events")

    def squeeze(self, limit_bytes: int | None) -> int:
        put(self.memory / "memory.max", limit_bytes or 0)
        return self.limit()


def put(path: Path, value: object) -> None:
    """Write *value* to a kernel file by one system call, so that its error is not lost at close."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, str(value).encode())
    finally:
        os.close(file)


def _number(path: Path) -> int:
    text = path.read_text().strip()
    return 1 << 63 if text == "max" else int(text)


def _counter(path: Path) -> int:
    """Return the line "oom_kill N" of a file of counters."""
    lines = (line.split() for line in path.read_text().splitlines())
    return next((int(number) for name, number in lines if name == "oom_kill"), 0)
