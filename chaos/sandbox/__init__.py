"""Where the agent lives: zones of disk with a known life time, a process tree, a memory limit.

    root/durable      a volume: survives everything but damage
    root/workspace    container disk: the agent's files
    root/tmp          container disk: TMPDIR
    root/assets       read-only gifts of the target (a wheel, say); survives like an image does

A back end is one module with a class that keeps the `Sandbox` protocol, and one that makes it (`Backend`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from chaos.events.seen import Observation

if TYPE_CHECKING:
    from chaos.targets import Strategy


class Survival(StrEnum):
    """What a fault takes away."""

    NONE = "none"  # nothing: memory and processes go on
    PROCESS = "process"  # memory and processes; the disk is ahead of the checkpoint
    CONTAINER = "container"  # and the container disk; the disk is behind the checkpoint
    NODE = "node"  # and the hostname
    POWER = "power"  # memory, processes, and whatever was not synced to any disk
    STORE = "store"  # memory, processes, and stored bytes are damaged


@dataclass(frozen=True)
class Zones:
    """The folders of one sandbox, all below *root*."""

    root: Path

    @property
    def durable(self) -> Path:
        return self.root / "durable"

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def tmp(self) -> Path:
        return self.root / "tmp"

    @property
    def assets(self) -> Path:
        return self.root / "assets"


@dataclass(frozen=True)
class Watch:
    """What an observation looks at.

    Args:
        environment: names of variables to record of each process.
        ports: name to number of the TCP ports that the sandbox was given; they are recorded by name.
        volatile: glob patterns of paths ("workspace/**/*.log") that may differ between equal runs.
    """

    environment: tuple[str, ...] = ()
    ports: tuple[tuple[str, int], ...] = ()
    volatile: tuple[str, ...] = ()


def _nothing(_: str) -> str:
    """Say that nothing is missing."""
    return ""


@dataclass(frozen=True)
class Able:
    """What a back end can do on this machine; each text is empty, or says what is missing and the remedy."""

    sandbox: str = ""  # anything at all
    process_tree: str = ""  # a process-id namespace: a kill takes the whole tree
    memory_limit: str = ""  # a memory cgroup: a real OOM kill
    hostname: str = ""  # a UTS namespace: a new hostname after an eviction
    memory_controller: str = ""  # "v1", "v2" or "" where there is none
    shared_disk: str = ""  # two agents at once on one container disk
    clock: str = ""  # a wall clock of the agent's own that can be moved
    disk_image: Callable[[str], str] = _nothing  # a disk of its own, by file system ("ext4", "xfs"): tried when asked
    ptrace: str = ""  # strace on the agent's processes
    syscalls: str = ""  # system calls on the durable zone that are held until the harness answers


class Sandbox(Protocol):
    """One sandbox holds one agent at a time; *start* may be called again after it ended."""

    zones: Zones
    hostname: str

    @property
    def pid(self) -> int:
        """The host's number of the agent's first process; 0 before the first start."""
        ...

    @property
    def cgroups(self) -> tuple[Path, ...]:
        """The files by which a process of one thread joins the agent's limits, writing "0"; none without a cgroup."""
        ...

    def make_zones(self) -> None:
        """Make the zones that are not there yet."""
        ...

    def start(self, command: Sequence[str], env: Mapping[str, str], warm: Sequence[str] = ()) -> int:
        """Start *command* as the root of a new process tree and return its pid on the host.

        Args:
            warm: modules that it may find imported already.
        """
        ...

    def wait(self, timeout: float | None) -> int | None:
        """Return the status (exit code, or minus the signal) of the agent once it ended; None after *timeout* s.

        When it returns a status, no process of the tree is left.
        """
        ...

    def signal(self, number: int) -> None:
        """Send a signal to the agent's first process only."""
        ...

    def stop(self) -> tuple[int, ...]:
        """Stop every process of the tree where it is, and return their numbers on the host."""
        ...

    def resume(self) -> None:
        """Let all that *stop* stopped go on."""
        ...

    def kill(self) -> None:
        """SIGKILL the whole process tree, at once."""
        ...

    def oom_kill(self, limit_bytes: int | None) -> tuple[int, int, int, int]:
        """Have the kernel's OOM killer end the agent; None clamps the limit to what it uses now.

        Returns:
            (limit, usage, counter of OOM kills before, after). Equal counters: the fault missed, and the
            former limit is in force again.
        """
        ...

    def oom_kills(self) -> int:
        """Return the kernel's counter of OOM kills in this sandbox; 0 without a memory cgroup."""
        ...

    def written_bytes(self) -> int:
        """Return the bytes that the agent's first process caused to be written so far; 0 if it is gone."""
        ...

    def wipe(self) -> int:
        """Empty `workspace/` and `tmp/`, the agent being gone; return how many entries were lost."""
        ...

    def rename_host(self, hostname: str) -> None:
        """Give the next incarnation another hostname."""
        ...

    def observe(self, watch: Watch) -> Observation:
        """Look at files, repositories and processes from outside. The caller holds the agent still."""
        ...

    def run(
        self, command: Sequence[str], env: Mapping[str, str], warm: Sequence[str], timeout: float
    ) -> tuple[int, bytes, bytes]:
        """Run *command* in the zones to its end, the agent being gone; return status, output and errors.

        Raises:
            TimeoutExpired: it took more than *timeout* seconds, and was killed.
        """
        ...

    def log(self) -> str:
        """Return the last lines that the agent printed in its present incarnation."""
        ...

    def close(self) -> None:
        """End whatever is alive and remove every trace: processes, cgroup, folders. May be called twice."""
        ...


class Backend(Protocol):
    """Makes the sandboxes of one kind; frozen, without fields."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    def able(self) -> Able:
        """Say what it can do on this machine; each power is tried once, for real."""
        ...

    def unsuited(self, strategy: Strategy) -> str:
        """Return why it cannot run *strategy*, "" if it can."""
        ...

    def sandbox(self, root: Path, memory_bytes: int, hostname: str) -> Sandbox:
        """Return a new sandbox with its zones below the folder *root*, which is made here."""
        ...

    def sweep(self) -> None:
        """Remove what harnesses left that are dead: killed, they could not do it themselves."""
        ...

    def sweep_own(self) -> None:
        """Remove what this process still has, at its end: an interrupt may come before a clean-up is arranged."""
        ...

    def beside(self, first: Sandbox, root: Path | None, memory_bytes: int, hostname: str) -> Sandbox:
        """Return another sandbox with the durable zone and the assets of *first*.

        It has a disk of its own below *root*; None: workspace and tmp are those of *first* too, and stay its own.
        """
        ...
