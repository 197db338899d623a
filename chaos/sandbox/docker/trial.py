"""What the Docker engine of this machine lets us do: a container is tried for real, once."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import fields
from typing import Any

from chaos import leftovers
from chaos.errors import HarnessError
from chaos.sandbox import Able, Watch
from chaos.sandbox.docker import engine
from chaos.sandbox.docker.sandbox import DockerSandbox

BYTES = 128 << 20  # an interpreter needs a tenth of it
HOSTNAME = "chaos-trial"
SECONDS = 30.0  # for what takes 0.2 s
PROGRAM = """
import os, time
open("../durable/mark", "w").write(f"{os.uname().nodename} {os.getpid()}")
time.sleep(1000)
"""
TRIED = frozenset({"sandbox", "process_tree", "memory_limit", "hostname", "memory_controller"})
ELSEWHERE = "not in a container; use --chaos-backend process"


def able() -> Able:
    """Return what containers can do here; powers that nobody has built for them, they have not."""
    if reason := engine.unreachable():
        return _unable(reason)
    root = leftovers.folder("docker-")
    try:
        box = DockerSandbox(root / "sandbox", BYTES, HOSTNAME)
        try:
            hostname, pid = _look(box)
            memory, controller = _oom(box)
        finally:
            leftovers.surely(box.close)
    except (HarnessError, OSError) as error:
        return _unable(f"Docker answers, but a container does not work as a sandbox: {error}")
    finally:
        leftovers.remove(root)
    return Able(
        process_tree="" if pid == 1 else f"the first program of a container is process {pid}, not 1",
        memory_limit=memory,
        hostname="" if hostname == HOSTNAME else f"a container is called {hostname}, not {HOSTNAME} as we asked for",
        memory_controller=controller,
        **_others(ELSEWHERE),
    )


def _unable(reason: str) -> Able:
    return Able(sandbox=reason, process_tree=reason, memory_limit=reason, hostname=reason, **_others(reason))


def _others(reason: str) -> dict[str, Any]:
    """Return *reason* for every power that is not tried here."""
    others = [field for field in fields(Able) if field.name not in TRIED]
    return {field.name: reason if field.default == "" else lambda _: reason for field in others}


def _look(box: DockerSandbox) -> tuple[str, int]:
    """Start a program in *box* and return the hostname and the process number that it has there.

    Raises:
        HarnessError: we cannot see it from outside, as an observation must.
    """
    box.start([sys.executable, "-I", "-S", "-c", PROGRAM], {})
    mark, deadline = box.zones.durable / "mark", time.monotonic() + SECONDS
    while not (mark.exists() and mark.read_text()):
        if box.wait(0.02) is not None or time.monotonic() > deadline:
            raise HarnessError(f"its first program wrote nothing to a volume; it printed {box.log()!r}")
    if (owner := mark.stat().st_uid) != os.geteuid():
        raise HarnessError(f"its files belong to user {owner}, not to ours (rootless Docker, or users are remapped)")
    try:
        box.observe(Watch())
        os.readlink(f"/proc/{box.pid}/cwd")
    except OSError as error:
        raise HarnessError(f"its processes cannot be seen from here ({error.strerror})") from None
    hostname, _, pid = mark.read_text().partition(" ")
    return hostname, int(pid)


def _oom(box: DockerSandbox) -> tuple[str, str]:
    """Have the program in *box* OOM-killed, and return what is missing for that, and the version of the cgroups."""
    with engine.asking("tell about itself"):
        controller = f"v{engine.client().info().get('CgroupVersion', '1')}"
    try:
        _, _, before, after = box.oom_kill(None)
    except HarnessError as error:
        return f"no OOM kill in a container: {error}", controller
    missing = "the memory limit of a container has no effect; boot the kernel with cgroup_enable=memory"
    return "" if after > before else missing, controller
