"""Is a process alive, and what is it doing? As /proc tells it, by the host's number."""

from __future__ import annotations

import time
from pathlib import Path

SETTLE_SECONDS = 5.0  # a signal is acted on within a millisecond, unless the process waits uninterruptibly for a disk
GONE = ""
_DEAD = (GONE, "Z", "X", "x")  # waits to be reaped, or is being torn down


def state(pid: int) -> str:
    """Return the state letter of a process (proc(5): "T" is stopped, "Z" a zombie), "" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return GONE


def alive(pid: int) -> bool:
    """Tell whether the process is there and not merely waiting to be reaped."""
    return pid > 0 and state(pid) not in _DEAD


def settled(pid: int, wanted: str) -> str:
    """Return the state letter of a process when it is *wanted*, or what it is after `SETTLE_SECONDS`."""
    end = time.monotonic() + SETTLE_SECONDS
    while (seen := state(pid)) != wanted and time.monotonic() < end:
        time.sleep(0.001)
    return seen
