"""zfs-fuse, a daemon for each sandbox: many can run at once, which it is not made for."""

from __future__ import annotations

import signal
import time
from functools import partial
from pathlib import Path

from chaos.errors import HarnessError
from chaos.sandbox.incarnation import Incarnation, order
from chaos.sandbox.mounts import SEARCH, command, undone, unmount

SOCKET = "run/zfs/zfs_socket"  # where the tools ask zfs-fuse
READY_SECONDS = 30.0  # it takes 0.1 s
POLL_SECONDS = 0.01
CACHE_MB = 64  # of the daemon; its default is a share of the machine's memory
ALONE = r"""
for folder in /run /var/lib/zfs /proc/sys/vm; do
    mount --make-private "$(findmnt --noheadings --output TARGET --target $folder)" || exit
done
mount -t tmpfs zfs /run && mkdir /run/zfs /run/lock && mount -t tmpfs zfs /var/lib/zfs &&
mount --bind /dev/null /proc/sys/vm/drop_caches &&
exec zfs-fuse --no-daemon --no-kstat-mount --max-arc-size "$0"
"""
"""Starts zfs-fuse with folders of its own for its socket, its lock and its cache, of which the system has one each.

So many daemons can run at once; the others see of each only what is mounted below a folder that is shared. The tools
drop the page cache of the whole machine around a rollback, which takes 5 s and makes everybody slow. A file system that
is not mounted has nothing there: they are given /dev/null for the switch.
"""


def start(folder: Path) -> Incarnation:
    """Start zfs-fuse; what it mounts below *folder* is seen from outside. It dies with the harness, as agents do.

    Raises:
        HarnessError: it does not start; with what it said.
    """
    command("mount", "--bind", folder, folder)
    command("mount", "--make-shared", folder)
    words = ("unshare", "--mount", "--propagation", "unchanged", "sh", "-c", ALONE, str(CACHE_MB))
    daemon = Incarnation(order("none", "zfs", (), words, {"PATH": SEARCH, "LC_ALL": "C"}), folder)
    with undone(partial(end, daemon, folder)):
        deadline = time.monotonic() + READY_SECONDS
        while not Path(f"/proc/{daemon.pid}/root/{SOCKET}").exists():
            if not daemon.alive or time.monotonic() > deadline:
                raise HarnessError(f"zfs-fuse does not start: {daemon.log() or 'it printed nothing'}")
            time.sleep(POLL_SECONDS)
    return daemon


def end(daemon: Incarnation, folder: Path) -> None:
    """Kill the *daemon*; nothing is mounted below *folder* any more."""
    daemon.signal(signal.SIGKILL)
    daemon.wait(None)
    unmount(folder)
