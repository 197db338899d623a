"""The memory of a container's agent: what the kernel counts, and an OOM kill on demand, through the engine alone.

Docker's limit of a running container can be lowered, on cgroup v1 only down to what is in use. Then a balloon, a
process that `docker exec` puts into the same cgroup, asks for more, and the kernel has to pick a victim.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from chaos.errors import HarnessError
from chaos.sandbox import cgroup, hierarchy
from chaos.sandbox.docker import engine

FIRST_CHOICE = 1000  # the highest oom_score_adj: this process before all others
LEAST_BYTES = 6 << 20  # Docker takes no lower limit
ATTEMPTS = 50  # an agent that grows meanwhile makes us read its usage again
NO_LIMIT = 1 << 50  # more than any machine has: a running container cannot be freed of its limit
BALLOON = """
import os, sys
size, file, piece = int(sys.argv[1]), os.memfd_create("balloon"), bytes(65536)
while size > 0:
    size -= os.write(file, piece)
"""


def group_of(pid: int) -> cgroup.Cgroup | None:
    """Return the memory cgroup of process *pid* where it can be read from here; it is never written to."""
    controller, folder = hierarchy.memory_of(pid)
    if not os.access(folder / "cgroup.procs", os.F_OK):
        return None
    return cgroup.CgroupV1((folder,)) if controller == "v1" else cgroup.CgroupV2((folder,))


def usage(container: str, group: cgroup.Cgroup | None) -> int:
    """Return the bytes charged to *container*, page cache included."""
    if group is not None:
        return group.usage()
    with engine.asking(f"read the memory usage of {container}"):
        return int(engine.client().api.stats(container, stream=False, one_shot=True)["memory_stats"]["usage"])


def set_limit(container: str, limit_bytes: int) -> bool:
    """Limit *container* to *limit_bytes*, swap off; 0: no limit. False if it uses more and the kernel refuses."""
    from docker.errors import APIError

    limit = limit_bytes or NO_LIMIT
    with engine.asking(f"limit the memory of {container}"):
        try:
            engine.client().api.update_container(container, mem_limit=limit, memswap_limit=limit)
        except APIError as error:
            if "busy" not in str(error.explanation):
                raise
            return False
    return True


def squeeze(container: str, group: cgroup.Cgroup | None, limit_bytes: int | None) -> tuple[int, bool]:
    """Lower the limit so that the kernel has to kill; None: to where it must kill.

    The caller restores the limit.

    Returns:
        The limit that was in force, and whether something was killed. Whether it was the agent, its end tells.
    """
    if limit_bytes is not None:
        limit = max(limit_bytes, LEAST_BYTES)
        # Trying makes the kernel drop page cache first, and on cgroup v2 kill at once.
        if set_limit(container, limit) and limit - usage(container, group) > cgroup.TRIGGER_BYTES:
            return limit, inflate(container, cgroup.TRIGGER_BYTES)
    for _ in range(ATTEMPTS):
        limit = max(usage(container, group), cgroup.FLOOR_BYTES)
        if set_limit(container, limit):
            # More than there is: page cache cannot feed it.
            return limit, inflate(container, limit + cgroup.TRIGGER_BYTES)
    raise HarnessError(f"{container} grew faster than its limit could be lowered to its usage")


def inflate(container: str, size: int) -> bool:
    """Have a process in *container* ask for *size* bytes, and tell whether it was killed, most likely with the agent.

    It asks for pages of an unmapped file: they do not count as its own when victims are weighed.
    """
    from docker.errors import APIError

    api = engine.client().api
    try:
        made = api.exec_create(container, [sys.executable, "-I", "-S", "-c", BALLOON, str(size)])["Id"]
        api.exec_start(made)
        return bool(api.exec_inspect(made)["ExitCode"] != 0)
    except APIError:  # the container died under it: the very purpose
        return True


class FirstChoice:
    """Makes process *pid* the OOM killer's first choice for the time of a `with` block, if it outlives it."""

    def __init__(self, pid: int) -> None:
        self._score = Path(f"/proc/{pid}/oom_score_adj")

    def __enter__(self) -> None:
        self._former = self._score.read_text()
        cgroup.put(self._score, FIRST_CHOICE)  # raising it needs no privilege

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            cgroup.put(self._score, self._former)
