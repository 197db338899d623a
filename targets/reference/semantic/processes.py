"""The processes of a sandbox that outlive a turn, as the kernel shows them from outside.

The agent itself is none of them, nor is its shell, which hangs on it by a pipe: a new agent makes both anew.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from chaos.sandbox.processes import descendants
from chaos.targets.reference.semantic.inspector import Process

LISTENING = "0A"  # a socket's state in /proc/PID/net/tcp
CHUNK_BYTES = 1 << 20
TRIES = 3  # a process that runs while its memory is read is read again


def alive(pid: int) -> bool:
    """Tell whether the process *pid* has its memory: a dying one loses that before its children are ended."""
    return bool(_read(pid, "cmdline"))


def find(agent: int) -> list[int]:
    """Return the host's numbers of the processes below *agent* that do not hang on it, in order."""
    pipes = {link for link in _links(agent).values() if link.startswith("pipe:")}
    below = [pid for pid in descendants(agent) if _links(pid).get("0") not in pipes]
    return sorted(pid for pid in below if alive(pid))


def inner(pid: int) -> int:
    """Return the number of the process *pid* in its own namespace, 0 if it is gone."""
    for line in _read(pid, "status").decode().splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return 0


class Sighting:
    """Looks at processes again and again; memory is read only of those that ran in between.

    Memory that another process changes from outside is not noticed before its owner runs.
    """

    def __init__(self, *, memory: bool) -> None:
        self._memory = memory
        self._known: dict[int, tuple[tuple[int, int], str]] = {}  # pid to (how long it ran, digest of its memory)

    def look(self, agent: int) -> tuple[Process, ...]:
        """Return the processes below *agent*."""
        pids = find(agent)
        self._known = {pid: known for pid, known in self._known.items() if pid in pids}
        return tuple(sorted(filter(None, map(self._process, pids))))

    def _process(self, pid: int) -> Process | None:
        argv = _read(pid, "cmdline").removesuffix(b"\0").split(b"\0")
        try:
            cwd = os.readlink(f"/proc/{pid}/cwd")
        except OSError:  # it ended just now
            return None
        environment = _read(pid, "environ").removesuffix(b"\0").split(b"\0")
        return Process(
            tuple(map(os.fsdecode, argv)),
            cwd,
            tuple(map(os.fsdecode, environment)),
            _ports(pid),
            inner(pid) if self._memory else 0,
            self._content(pid) if self._memory else "",
        )

    def _content(self, pid: int) -> str:
        """Return the digest of what *pid* may write, read again only if it ran since."""
        for _ in range(TRIES):
            ran, known = running(pid), self._known.get(pid)
            if known is not None and known[0] == ran:
                return known[1]
            self._known[pid] = (ran, memory(pid))
        return self._known[pid][1]


def running(pid: int) -> tuple[int, int]:
    """Return the number of threads of *pid* and for how long they ran, nanoseconds; equal pairs: none ran."""
    tasks = [Path(f"/proc/{pid}/task/{name}/schedstat") for name in _names(f"/proc/{pid}/task")]
    total = 0
    for task in tasks:
        with suppress(OSError):
            total += int(task.read_text().split()[0])
    return len(tasks), total


def memory(pid: int) -> str:
    """Return a digest of the memory that *pid* may write and that is its own, with the addresses."""
    digest = blake2b(digest_size=16)
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as content:
            for line in _read(pid, "maps").decode(errors="replace").splitlines():
                where, mode = line.split()[:2]
                if "w" not in mode:
                    continue
                start, end = (int(address, 16) for address in where.split("-"))
                digest.update(where.encode())
                content.seek(start)
                while start < end and (chunk := content.read(min(CHUNK_BYTES, end - start))):
                    digest.update(chunk)
                    start += len(chunk)
    except OSError as error:  # it ended, or a region cannot be read: never equal to anything
        return f"unreadable {error.errno} {os.urandom(8).hex()}"
    return digest.hexdigest()


def _ports(pid: int) -> tuple[int, ...]:
    """Return the TCP ports that *pid* listens on."""
    sockets = {link for link in _links(pid).values() if link.startswith("socket:")}
    if not sockets:
        return ()
    found = set()
    for table in ("net/tcp", "net/tcp6"):
        for line in _read(pid, table).decode().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in sockets:
                found.add(int(fields[1].rpartition(":")[2], 16))
    return tuple(sorted(found))


def _links(pid: int) -> dict[str, str]:
    """Return the open files of *pid* by their number."""
    found = {}
    for name in _names(f"/proc/{pid}/fd"):
        with suppress(OSError):
            found[name] = os.readlink(f"/proc/{pid}/fd/{name}")
    return found


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read(pid: int, name: str) -> bytes:
    """Return a kernel file of *pid*; nothing where it is gone."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
