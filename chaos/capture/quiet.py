"""Did anything of a process tree run? A capture is true only of an agent that stood still with all it has."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from chaos.sandbox.processes import descendants

SHARED_WRITABLE = "rw-s"
POLL_SECONDS = 0.0002  # who has just said that it stands waits in microseconds, once it has a processor
RUNS = b"R"  # the state of a thread that runs, or would if it had a processor
_CHILDREN = f"/proc/self/task/{os.getpid()}/children"  # not there: a kernel without CONFIG_PROC_CHILDREN


def tree(root: int) -> tuple[int, ...]:
    """Return *root* and all live processes below it, by the host's numbers."""
    found, todo = [root], [root]
    while todo:
        pid = todo.pop()
        try:
            below = [int(child) for task in _tasks(pid) for child in Path(f"{task}/children").read_bytes().split()]
        except FileNotFoundError:
            if not os.path.exists(_CHILDREN):
                return (root, *descendants(root))
            continue
        found += below
        todo += below
    return tuple(found)


def turns(pids: Sequence[int]) -> tuple[object, ...] | None:
    """Return how long and how often each thread of *pids* has run; equal answers: none has run in between.

    None where the kernel does not tell (proc(5): schedstat needs CONFIG_SCHED_INFO).
    """
    told: list[object] = []
    for pid in pids:
        for task in _tasks(pid):
            try:
                told.append(task.encode() + Path(f"{task}/schedstat").read_bytes())
                if Path(f"{task}/stat").read_bytes().rpartition(b")")[2].split()[0] == RUNS:
                    told.append(object())  # equal to nothing: the kernel counts at its ticks, and when it stops running
            except (FileNotFoundError, ProcessLookupError):
                if not os.path.exists("/proc/self/schedstat"):
                    return None
    return tuple(told)


def rested(root: int, seconds: float) -> tuple[tuple[int, ...], tuple[object, ...] | None]:
    """Return the tree of *root* and its turns when nothing of it runs, or after so many *seconds*."""
    end = time.monotonic() + seconds
    while True:
        pids = tree(root)
        told = turns(pids)
        if told is None or all(isinstance(one, bytes) for one in told) or time.monotonic() > end:
            return pids, told
        time.sleep(POLL_SECONDS)


def mapped(pids: Collection[int], root: Path) -> tuple[Path, ...]:
    """Return the files below *root* that a process of *pids* has mapped so that what it writes goes into them."""
    prefix = f"{root}/"
    found = set[str]()
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape").splitlines()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        for line in lines:
            if SHARED_WRITABLE in line[:64] and (place := line.find(prefix)) > 0:
                found.add(line[place:].removesuffix(" (deleted)"))
    return tuple(Path(name) for name in sorted(found))


def _tasks(pid: int) -> list[str]:
    try:
        return [f"/proc/{pid}/task/{name}" for name in sorted(os.listdir(f"/proc/{pid}/task"))]
    except (FileNotFoundError, ProcessLookupError):
        return []
