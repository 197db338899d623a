"""The memory of processes, dumped and brought back by CRIU (criu.org), from inside the sandbox's namespaces.

A process keeps its number, so it comes back only where that is free: in a new PID namespace, before the agent starts
anything. Its files must be what they were at the dump: the workspace is put back first.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.sandbox import Sandbox
from chaos.targets.reference.semantic.manifest import synced
from chaos.targets.reference.semantic.processes import find, inner

VARIABLE = "CHAOS_CRIU"  # names the program where the one of the PATH is none or too old
LEAST = 4  # 3.17 fails on the vdso of today's kernels
SECONDS = 60.0  # a dump of 200 MB takes 0.14 s
CLEAR = 1000  # CRIU's own processes get numbers this far from those that come back, and their threads
REMEDY = "make one with `.ci/criu DIR` on Debian, and name it: CHAOS_CRIU=DIR/criu"
# A session of the agent's shell; the sandbox's own cgroup; connections of the dead are cut; an open database is locked.
COMMON = ("--shell-job", "--manage-cgroups=ignore", "--tcp-close", "--file-locks")


@functools.cache
def trouble(program: str) -> str:
    """Return why *program* cannot be used on this machine, and the remedy; "" if it can."""
    if os.geteuid() != 0:
        return "CRIU has to be run by root"
    if shutil.which("nsenter") is None:
        return "CRIU is run through nsenter: install util-linux"
    if shutil.which(program) is None:
        return f"no program {program}: {REMEDY}"
    version = re.search(r"Version: (\d+)", _run([program, "--version"])[1])
    if version is None or int(version[1]) < LEAST:
        return f"{program} is no CRIU of version {LEAST} or newer: {REMEDY}"
    status, output = _run([program, "check"])
    return f"{program} does not work here: {_last(output)}" if status else ""


def named() -> str:
    """Return the program to use."""
    return os.environ.get(VARIABLE, "criu")


@dataclass(frozen=True)
class Criu:
    """Dumps and restores with *program*."""

    program: str

    def dump(self, agent: int, images: Path) -> tuple[int, str]:
        """Dump what lives below *agent* beside it into the new folder *images*, durably; it lives on.

        Returns:
            (bytes written, why it failed or "").
        """
        for root in _roots(find(agent)):
            place = images / str(inner(root))
            place.mkdir(parents=True)
            options = ["-o", "dump.log", "--leave-running", "--skip-in-flight", *COMMON]
            words = ["dump", "-t", place.name, "-D", str(place), *options]
            status, output = _run([*_inside(agent), self.program, *words])
            if status:
                why = _last(_log(place / "dump.log")) or _last(output)
                shutil.rmtree(images)
                return 0, why
        files = [path for path in images.rglob("*") if path.is_file()]
        for path in (*files, *(path.parent for path in files), images.parent):
            synced(path)
        return sum(path.stat().st_size for path in files), ""

    def restore(self, sandbox: Sandbox, images: Path, highest: int) -> str:
        """Bring back all that was dumped into *images* below the agent of *sandbox*; return why it failed or "".

        Args:
            highest: the highest number of a process in *images*.
        """
        joined = "".join(f"echo 0 >{shlex.quote(str(file))}; " for file in sandbox.cgroups)
        script = f'{joined}echo {highest + CLEAR} >/proc/sys/kernel/ns_last_pid; exec setsid -w "$@"'
        # A session of its own: one from outside of the namespace could not be dumped again.
        for place in sorted(images.iterdir()):
            words = ["restore", "-d", "-D", str(place), "-o", "restore.log", *COMMON]
            status, output = _run([*_inside(sandbox.pid), "sh", "-c", script, "sh", self.program, *words])
            if status:
                return _last(_log(place / "restore.log")) or _last(output)
        return ""


def _inside(agent: int) -> list[str]:
    """Return the command that runs another one in the namespaces of *agent*, or CRIU would dump those too."""
    return ["nsenter", "-t", str(agent), "-p", "-m", "-u", "-i"]


def _roots(pids: Sequence[int]) -> list[int]:
    """Return those of *pids* whose parent is none of them: CRIU takes a whole tree at once."""
    return [pid for pid in pids if _parent(pid) not in pids]


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _run(command: Sequence[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout.decode(errors="replace")


def _log(path: Path) -> str:
    """Return the errors in the log of CRIU at *path*."""
    if not path.exists():
        return ""
    return "\n".join(line for line in path.read_text(errors="replace").splitlines() if "Error" in line)


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1].strip()
