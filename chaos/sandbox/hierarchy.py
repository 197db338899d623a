"""Finds where cgroups can be made, makes them there, and sweeps those of dead harnesses.

As root at the top of the hierarchy, otherwise below the cgroup that we are in, or in the folder that
`$CHAOS_CGROUP` names. The names of our cgroups hold the harness's pid, so that stale ones can be told.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import HarnessError
from chaos.sandbox.cgroup import Cgroup, CgroupV1, CgroupV2, put

VARIABLE = "CHAOS_CGROUP"  # names a folder of the memory hierarchy that was given to us
LEAF = "chaos-harness"  # where the harness itself moves to if v2 wants the parent free of processes
PIDS_LIMIT = 1024  # processes and threads of one agent: above what a browser needs, far below the host's table

_numbers = itertools.count()


@dataclass(frozen=True)
class Parent:
    """Where cgroups can be made; *missing* says why nowhere, and the remedy.

    Args:
        controller: "v1", "v2", or "" where the kernel offers no memory controller.
        memory: folder below which memory cgroups can be made.
        pids: the same for the pids controller of v1; v2 has one hierarchy for all.
    """

    controller: str
    memory: Path | None = None
    pids: Path | None = None
    missing: str = ""


def create(parent: Parent, memory_bytes: int) -> Cgroup:
    """Make a new cgroup below *parent* with a limit of *memory_bytes* (0: none) and `PIDS_LIMIT`."""
    if parent.memory is None:
        raise HarnessError(parent.missing)
    name = f"{_prefix()}{os.getpid()}-{next(_numbers)}"
    folders = [folder / name for folder in (parent.memory, parent.pids) if folder]
    kind = CgroupV1 if parent.controller == "v1" else CgroupV2
    cgroup = kind(tuple(folders))
    try:
        cgroup.make()
        cgroup.set_limit(memory_bytes)
        cgroup.limit_pids(PIDS_LIMIT)
    except BaseException:
        cgroup.remove()
        raise
    return cgroup


def find_parent() -> Parent:
    """Return where this process can make memory cgroups; stale ones of dead harnesses there are swept."""
    return _find_parent(os.environ.get(VARIABLE, ""))


@functools.cache
def _find_parent(named: str) -> Parent:
    hierarchies = _hierarchies()
    controller = next((c for c in ("v1", "v2") if f"memory {c}" in hierarchies), "")
    if not controller:
        return Parent("", missing="this kernel offers no memory cgroup; boot it with cgroup_enable=memory")
    top, own = hierarchies[f"memory {controller}"]
    if own.name == LEAF:
        own = own.parent
    refusals = []
    for folder in [Path(named)] if named else [*([top] if os.geteuid() == 0 else []), own]:
        try:
            parent = Parent(controller, folder, _pids_parent(hierarchies) if controller == "v1" else None)
            _sweep(parent)
            _try(parent)
            return parent
        except (OSError, HarnessError, subprocess.SubprocessError) as error:
            refusals.append(f"{folder}: {getattr(error, 'strerror', None) or error}")
    remedy = "run inside: systemd-run --user --scope -p Delegate=yes pytest --chaos; or"
    if controller == "v1":
        remedy = f"as root once: mkdir {top}/NAME && chown -R USER {top}/NAME; then"
    reason = f"no memory cgroup can be made here ({'; '.join(refusals)})"
    return Parent(controller, missing=f"{reason}; {remedy} set {VARIABLE} to a folder that was given to you")


def memory_of(pid: int) -> tuple[str, Path]:
    """Return version and folder of the memory cgroup that the process *pid* is in; "" and "/" where there is none."""
    found = _hierarchies(str(pid))
    return next(((c, found[f"memory {c}"][1]) for c in ("v1", "v2") if f"memory {c}" in found), ("", Path("/")))


def _hierarchies(pid: str = "self") -> dict[str, tuple[Path, Path]]:
    """Return mount point and folder of a process in each hierarchy of interest, by "CONTROLLER VERSION"."""
    own = {}
    for line in _read(Path(f"/proc/{pid}/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        own.update(dict.fromkeys(controllers.split(","), path))
    found = {}
    for line in _read(Path("/proc/self/mountinfo")).splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        root, point = left.split(" ")[3:5]
        mount = Path(point.replace("\\040", " "))
        for name in ("memory", "pids"):
            if kind == "cgroup" and name in options.split(","):
                found[f"{name} v1"] = (mount, _below(mount, root, own.get(name, "/")))
            elif kind == "cgroup2" and name in _read(mount / "cgroup.controllers").split():
                found[f"{name} v2"] = (mount, _below(mount, root, own.get("", "/")))
    return found


def _below(mount: Path, root: str, path: str) -> Path:
    """Return the folder of the cgroup *path* where only *root* is mounted (a container sees a part)."""
    if root != "/":
        path = path.removeprefix(root) if path.startswith(root) else "/"
    return mount / path.lstrip("/")


def _pids_parent(hierarchies: dict[str, tuple[Path, Path]]) -> Path | None:
    top, own = hierarchies.get("pids v1", (None, None))
    return next((folder for folder in (top, own) if folder and os.access(folder, os.W_OK)), None)


def _try(parent: Parent) -> None:
    """Make a cgroup below *parent*, put a process in, and remove it, so that what we promise is tried."""
    if parent.controller == "v2":
        assert parent.memory
        _enable(parent.memory)
    cgroup = create(parent, PIDS_LIMIT << 20)
    try:
        for file in cgroup.procs:
            subprocess.run(["/bin/sh", "-c", 'echo 0 > "$1"', "sh", file], check=True, stderr=subprocess.DEVNULL)
    finally:
        cgroup.remove()


def _enable(folder: Path) -> None:
    """Give the children of a v2 cgroup the memory controller, and the pids controller if there is one."""
    if "memory" not in _read(folder / "cgroup.controllers").split():
        raise HarnessError("the memory controller is not delegated to it")
    try:
        put(folder / "cgroup.subtree_control", "+memory")
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        _vacate(folder)
        put(folder / "cgroup.subtree_control", "+memory")
    with contextlib.suppress(OSError):
        put(folder / "cgroup.subtree_control", "+pids")


def _vacate(folder: Path) -> None:
    """Move the processes of a v2 cgroup into a leaf: one with controllers for its children may hold none."""
    leaf = folder / LEAF
    leaf.mkdir(exist_ok=True)
    for pid in (folder / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            put(leaf / "cgroup.procs", pid)


def _prefix() -> str:
    """Return what the names of cgroups begin with whose pids mean the same as ours."""
    return f"chaos-{os.stat('/proc/self/ns/pid').st_ino}-"


def _sweep(parent: Parent) -> None:
    """Remove the cgroups below *parent* whose harness is dead, and kill what is still in them."""
    for folder in _stale(parent.memory, parent.pids):
        with contextlib.suppress(OSError, HarnessError):
            CgroupV2((folder,)).remove()


def _stale(*tops: Path | None) -> Iterator[Path]:
    pattern = re.compile(rf"{_prefix()}(\d+)-\d+")
    for top in tops:
        for folder in top.iterdir() if top else ():
            match = pattern.fullmatch(folder.name)
            if match and not Path(f"/proc/{match[1]}").exists():
                yield folder


def stale() -> list[Path]:
    """Return the cgroups of dead harnesses, wherever this process may make some; nothing is swept."""
    found = dict.fromkeys(top for pair in _hierarchies().values() for top in pair)
    named = os.environ.get(VARIABLE, "")
    tops = {*found, *(top.parent for top in found if top.name == LEAF), *([Path(named)] if named else [])}
    return sorted(_stale(*(top for top in tops if top.is_dir())))


def remove(folder: Path) -> bool:
    """Kill what is in the cgroup *folder* and remove it; tell whether it is gone."""
    with contextlib.suppress(OSError, HarnessError):
        CgroupV2((folder,)).remove()
    return not folder.exists()


def _read(path: Path) -> str:
    """Return a kernel file's content; nothing where there is no such file."""
    try:
        return path.read_text()
    except OSError:
        return ""
