"""The processes of a sandbox as the kernel tells them, with what must not differ between equal runs masked."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from chaos.events.seen import ProcessEntry
from chaos.sandbox import Watch
from chaos.sandbox.listening import listening

MASK = "$SANDBOX"
DEAD = "ZXx"  # states of processes that only wait to be reaped


def text(name: str) -> str:
    """Make a file name storable as UTF-8: odd bytes are shown by their hexadecimal number."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def descendants(root_pid: int) -> set[int]:
    """Return all live processes below *root_pid*, host's numbers."""
    below = _children if os.path.exists(f"/proc/self/task/{os.getpid()}/children") else _below().get
    tree, todo = set[int](), [root_pid]
    while todo:
        new = [pid for pid in below(todo.pop()) or () if (found := _stat(pid)) and found[0] not in DEAD]
        tree.update(new)
        todo += new
    return tree


def _children(pid: int) -> list[int]:
    """Return the children of all threads of *pid*, from the kernel's own lists.

    A list that is read while one of its processes ends may lack another one (proc(5)): it counts when read twice alike.
    """
    last = None
    while True:
        listed = b" ".join(_read(f"/proc/{pid}/task/{thread}/children") for thread in _threads(pid))
        if listed == last:
            return [int(number) for number in listed.split()]
        last = listed


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def _below() -> dict[int, list[int]]:
    """Return the children of every process: for kernels without CONFIG_PROC_CHILDREN."""
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := _stat(int(name))):
            below.setdefault(found[1], []).append(int(name))
    return below


def _stat(pid: int) -> tuple[str, int] | None:
    """Return state letter and parent of a process."""
    raw = _read(f"/proc/{pid}/stat")
    state, parent, *_ = raw.rpartition(b")")[2].split() or (b"", b"")
    return (state.decode(), int(parent)) if parent else None


def _read(path: str) -> bytes:
    """Return a kernel file's content; nothing where the process is gone or not ours."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def processes(root: Path, watch: Watch, pids: Collection[int]) -> tuple[ProcessEntry, ...]:
    """Describe the processes *pids* of the sandbox whose zones are below *root*."""
    sockets = functools.cache(listening)  # asked on demand, once
    mask = _Mask(root, watch.ports)
    entries = (_process(pid, mask, watch, sockets) for pid in pids)
    return tuple(sorted(entry for entry in entries if entry))


class _Mask:
    """Replaces what differs between equal runs: the sandbox's path, and the ports it was given."""

    def __init__(self, root: Path, ports: tuple[tuple[str, int], ...]) -> None:
        self.root = os.fspath(root)
        self.names = {str(port): f"${name}" for name, port in ports}
        # A whole argument ("4242"), or the end of one ("--port=4242", "localhost:4242", "http://localhost:4242/v1").
        self.port = re.compile(rf"(?:^|(?<=[:=]))({'|'.join(self.names) or '(?!)'})(?=$|/)")

    def __call__(self, raw: bytes) -> str:
        masked = text(os.fsdecode(raw).replace(self.root, MASK))
        return self.port.sub(lambda match: self.names[match[1]], masked)


def _process(pid: int, mask: _Mask, watch: Watch, sockets: Callable[[], dict[str, int]]) -> ProcessEntry | None:
    command = _read(f"/proc/{pid}/cmdline")
    found = _stat(pid)
    if not command or not found or found[0] in DEAD:
        return None
    try:
        cwd = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        cwd = ""
    variables = dict(
        entry.partition(b"=")[::2] for entry in _read(f"/proc/{pid}/environ").split(b"\0") if watch.environment
    )
    names = [name for name in sorted(watch.environment) if name.encode() in variables]
    return ProcessEntry(
        argv=tuple(mask(word) for word in command.removesuffix(b"\0").split(b"\0")),
        cwd=mask(os.fsencode(cwd)),
        environment=tuple((name, mask(variables[name.encode()])) for name in names),
        ports=tuple(sorted({mask(str(port).encode()) for port in _ports(pid, sockets)})),
        pid=pid,
    )


def _ports(pid: int, sockets: Callable[[], dict[str, int]]) -> Iterator[int]:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        try:
            link = os.readlink(f"{folder}/{name}")
        except OSError:
            continue
        if link.startswith("socket:") and link in sockets():
            yield sockets()[link]
