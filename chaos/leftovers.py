"""Temporary folders that tell whose they are, so that what a killed harness left can be removed by the next one."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

PREFIX = f"chaos-{os.stat('/proc/self/ns/pid').st_ino}-"
"""Folders are called `chaos-NAMESPACE-PID-...`: the harness's pid, and the namespace where it means the same."""

KERNEL_ZFS = Path("/dev/zfs")

ESCAPED = re.compile(r"\\([0-7]{3})")
"""How the kernel writes spaces and the like in the paths of its tables, by their octal numbers."""


def folder(kind: str = "") -> Path:
    """Return a new temporary folder of this process, in the system's folder for them, outside of any repository."""
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-{kind}"))


def surely(clean_up: Callable[[], None]) -> None:
    """Call *clean_up*, and once more if an interrupt came in the middle of it: what it began must not stay behind."""
    try:
        clean_up()
    except KeyboardInterrupt:
        clean_up()
        raise


def sweep() -> None:
    """Unmount and remove the folders of harnesses that are dead: killed, they could not do it themselves."""
    for left in folders(own=False):
        remove(left)


def sweep_own() -> None:
    """Remove what this process still has, at its end: an interrupt may come between a folder and its clean-up."""
    for left in folders(own=True):
        remove(left)


def folders(*, own: bool) -> Iterator[Path]:
    """Yield the folders of this process (*own*), or of this user's harnesses in our namespace that are dead."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = left.name.removeprefix(PREFIX).partition("-")[0]
        with contextlib.suppress(FileNotFoundError):  # another worker was faster
            if not pid.isdigit() or left.lstat().st_uid != os.getuid():
                continue
            if int(pid) == os.getpid() if own else not Path(f"/proc/{pid}").exists():
                yield left


def remove(left: Path) -> None:
    """Remove the folder *left* and everything in it, mounts first: what is on them may be somebody else's.

    A pool that the kernel's zfs has in it bears its name. (A daemon dies with its harness, and its pool with it.)
    """
    if KERNEL_ZFS.exists() and (zpool := shutil.which("zpool")):
        subprocess.run((zpool, "destroy", "-f", left.name), capture_output=True, check=False)
    for mount in mounts_below(left):
        subprocess.run(("umount", "--lazy", mount), capture_output=True, check=False)
    if not mounts_below(left):
        shutil.rmtree(left, ignore_errors=True)


def mounts_below(top: Path) -> list[str]:
    """Return the mount points at or below *top*, innermost first."""
    prefix = os.fspath(top)
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = (ESCAPED.sub(lambda escape: chr(int(escape[1], 8)), line.split()[4]) for line in lines)
    ours = [point for point in points if point == prefix or point.startswith(prefix + "/")]
    return sorted(ours, key=len, reverse=True)
