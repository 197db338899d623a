"""What a harness has left on this machine: looked for everywhere where it makes things, by its process id.

Everything of a run bears the harness's pid: temporary folders, mounts and loop devices in them, cgroups, sockets,
shared memory, containers. Processes are found by the environment, the folder and the cgroup that they are in.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from chaos.leftovers import PREFIX
from chaos.probe import GATE

SETTLE_SECONDS = 3.0  # a kill is over in milliseconds; a swamped machine may take longer to bury the dead
POLL_SECONDS = 0.05
CGROUPS = Path("/sys/fs/cgroup")
CGROUP_DEPTH = 5
KINDS = ("pid", "net", "mnt")


def of_a_run(pid: int) -> list[str]:
    """Return what is left of the runs of the harness *pid*, which has none under way; it may have servers."""
    return _settled(lambda: list(_left(pid, _run_folder(pid))))


def of_a_harness(pid: int) -> list[str]:
    """Return what is left of the harness *pid*, which is gone."""
    anything = re.compile(re.escape(f"{PREFIX}{pid}-").encode())
    return _settled(lambda: [*_left(pid, anything), *_containers(pid)])


def namespaces() -> frozenset[str]:
    """Return the namespaces that any process is in, such as "pid:[4026531836]"."""
    return frozenset(name for process in _processes() for name in _namespaces(process))


def orphans(before: frozenset[str]) -> list[str]:
    """Return the processes in namespaces that were not there *before* and that nobody waits for: whose are they?

    Other people's sandboxes on the same machine have a parent that is alive.
    """
    return _settled(lambda: [f"orphan {told}" for told in _orphans(before)])


def _orphans(before: frozenset[str]) -> Iterator[str]:
    for process in _processes():
        if not (new := _namespaces(process) - before):
            continue
        above = process
        while above.name != "1" and _namespaces(above) - before:
            above = _parent(above)
        if above.name in ("0", "1"):  # taken in by init: its own parent is gone
            yield f"{process.name} in {', '.join(sorted(new))}"


def _namespaces(process: Path) -> frozenset[str]:
    found = set()
    for kind in KINDS:
        with contextlib.suppress(OSError):
            found.add(os.readlink(process / "ns" / kind))
    return frozenset(found)


def _parent(process: Path) -> Path:
    """Return the parent of *process*; ourselves, who are no orphan, for one that is gone meanwhile."""
    try:
        return Path("/proc") / (process / "stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return Path("/proc/self")


def _settled(look: Callable[[], list[str]]) -> list[str]:
    """Return what *look* goes on to find."""
    end = time.monotonic() + SETTLE_SECONDS
    while (found := look()) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    return sorted(found)


def _run_folder(pid: int) -> re.Pattern[bytes]:
    """Return what the name of a run's folder looks like; those of servers say what they are for."""
    return re.compile(re.escape(f"{PREFIX}{pid}-").encode() + rb"[a-z0-9_]{8}(?![a-z0-9_-])")


def _left(pid: int, folder: re.Pattern[bytes]) -> Iterator[str]:
    yield from (f"process {line}" for line in _alive(pid, folder))
    yield from (f"mount {line}" for line in _lines("/proc/self/mountinfo", folder))
    yield from (f"socket {line}" for line in _lines("/proc/net/unix", re.compile(rb"@chaos-%d-" % pid)))
    yield from (f"temporary folder {path}" for path in _entries(tempfile.gettempdir(), folder))
    yield from (f"shared memory {path}" for path in _entries("/dev/shm", folder))
    yield from (f"cgroup {path}" for path in _cgroups(pid))
    yield from (f"loop device {line}" for line in _loops(folder))


def _alive(pid: int, folder: re.Pattern[bytes]) -> Iterator[str]:
    gate, cgroup = f"{GATE}=unix:@chaos-{pid}-".encode(), f"/{PREFIX}{pid}-".encode()
    for process in _processes():
        if process.name == str(os.getpid()):
            continue
        with contextlib.suppress(OSError):
            environment, words = (process / "environ").read_bytes(), (process / "cmdline").read_bytes()
            groups, home = (process / "cgroup").read_bytes(), os.fsencode(os.readlink(process / "cwd"))
            if gate in environment or cgroup in groups or any(map(folder.search, (environment, words, home))):
                yield f"{process.name}: {words.replace(bytes(1), b' ').decode(errors='replace')[:100]}"


def _processes() -> list[Path]:
    return [path for path in Path("/proc").iterdir() if path.name.isdigit()]


def _lines(file: str, pattern: re.Pattern[bytes]) -> list[str]:
    return [line.decode(errors="replace") for line in Path(file).read_bytes().splitlines() if pattern.search(line)]


def _entries(folder: str, pattern: re.Pattern[bytes]) -> list[str]:
    return [os.path.join(folder, name) for name in os.listdir(folder) if pattern.search(os.fsencode(name))]


def _cgroups(pid: int) -> Iterator[str]:
    for top, folders, _ in os.walk(CGROUPS):
        yield from (os.path.join(top, name) for name in folders if name.startswith(f"{PREFIX}{pid}-"))
        if len(Path(top).relative_to(CGROUPS).parts) >= CGROUP_DEPTH:
            folders.clear()


def _loops(pattern: re.Pattern[bytes]) -> list[str]:
    try:
        told = subprocess.run(
            ("losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"), capture_output=True, check=False
        ).stdout
    except FileNotFoundError:
        return []
    return [line.decode(errors="replace") for line in told.splitlines() if pattern.search(line)]


def _containers(pid: int) -> Iterator[str]:
    """Yield the containers and volumes of the harness *pid*; none where no Docker answers."""
    try:
        from chaos.sandbox.docker import engine
    except ImportError:
        return
    if engine.unreachable():
        return
    chosen = {"filters": {"label": f"{engine.LABEL}={PREFIX}{pid}"}}
    yield from (f"container {one.name}" for one in engine.client().containers.list(all=True, **chosen))
    yield from (f"volume {one.name}" for one in engine.client().volumes.list(**chosen))
