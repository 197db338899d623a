"""A wall clock of the agent's own, which can be moved while it runs; the machine's clock stays as it is.

libfaketime is preloaded into everything that an incarnation starts, and adds to the kernel's wall clock what a file of
the harness says, asked anew each time. Monotonic clocks and the time stamps of files are the kernel's and stay true.
A wait with a wall-clock deadline that is under way when the clock moves does not notice.
"""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

from chaos import faketime, leftovers
from chaos.errors import HarnessError
from chaos.events.done import ClockMoved, ClockRead
from chaos.journal import Journal

AT_START = ("LD_PRELOAD", "FAKETIME_NO_CACHE", "FAKETIME_DONT_FAKE_MONOTONIC")
"""Variables that the library reads once, when a program starts; the others count at every look at the clock."""

SHARED_NAMES = "FAKETIME_SHARED"
"""Variable that names the semaphore and the memory that it uses when a program starts."""

SHARED = Path("/dev/shm")  # where glibc keeps named semaphores; not a place for files of ours
SHARED_BYTES = 4096  # the library maps a few timespecs of it
PROGRAM = "import time; print(time.time())"
PROGRAM_SECONDS = 30.0  # an interpreter is up in 0.02 s
TRIAL_SECONDS = 86_400
TOLERANCE_SECONDS = 1.0  # of what the helper reads: the clock itself may be corrected meanwhile
IN_OPEN = 0x20  # inotify(7)
EVENTS_BYTES = 4096  # equal events in a row are one

_libc = ctypes.CDLL(None, use_errno=True)
_libc.sem_open.restype = ctypes.c_void_p
_numbers = count(1)


@functools.cache
def missing() -> str:
    """Return what this machine lacks for a clock that moves, and the remedy; "" if nothing: it is tried once."""
    if not (library := faketime.installed()):
        return "no libfaketime: the agent's clock cannot be moved; apt-get install libfaketime"
    try:
        _try()
    except (HarnessError, OSError, ValueError) as error:
        return f"{library} does not move a clock here ({error}); install it for this machine's C library"
    return ""


def _try() -> None:
    """Move a clock; raises what went wrong."""
    folder = leftovers.folder("clock-")
    try:
        clock = Clock(folder)
        try:
            clock.environment({})
            clock.move(TRIAL_SECONDS)
        finally:
            clock.close()
    finally:
        leftovers.remove(folder)


class Clock:
    """The clock of one run; it is right until it is moved.

    Args:
        folder: of its own, made here; removed by whoever owns it.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._file, self._offset = folder / "offset", 0
        self._shared, self._environment = list[str](), dict[str, str]()
        self._set(0)
        self._watch = _inotify(folder)
        self._unread = False
        _sweep()

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment *env* of an incarnation that is about to start, with what gives it this clock.

        The library makes a named semaphore for every process unless it is given one, and a killed process leaves it
        behind. Here it is ours, and new each time: the last incarnation may have died while it held it.
        """
        shared = f"{leftovers.PREFIX}{os.getpid()}-clock-{next(_numbers)}"
        self._shared.append(shared)
        _make_shared(shared)
        preload = ":".join(filter(None, (str(faketime.library()), env.get("LD_PRELOAD", ""))))
        self._environment = {
            **dict(zip(AT_START, (preload, "1", "1"), strict=True)),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            SHARED_NAMES: f"/{shared} /{shared}",
        }
        return {**env, **self._environment}

    def move(self, seconds: int) -> tuple[float, float]:
        """Move it by *seconds*; return how far off a helper in the agent's environment reads it, before and after.

        Raises:
            HarnessError: the helper does not see it move.
        """
        before = self.read()
        self._set(self._offset + seconds)
        after = self.read()
        if abs(after - before - seconds) > TOLERANCE_SECONDS:
            raise HarnessError(f"the clock was moved by {seconds} s, and a helper reads {after - before:.3f} s")
        self._opened()  # what came so far may have been the helper
        self._unread = True
        return before, after

    def read(self) -> float:
        """Return by how many seconds a helper process in the environment of the agent reads a wrong time."""
        begun = time.time()
        done = subprocess.run(
            (sys.executable, "-I", "-S", "-c", PROGRAM), env=self._environment, capture_output=True, text=True,
            timeout=PROGRAM_SECONDS, check=False,
        )  # fmt: skip
        if done.returncode or done.stderr:
            raise HarnessError(f"a helper could not read the agent's clock: {done.stderr.strip() or done.returncode}")
        return float(done.stdout) - (begun + time.time()) / 2

    def tell(self, journal: Journal) -> None:
        """Note in *journal* that a process of the sandbox has looked at the moved clock, once for each move."""
        if self._unread and self._opened():
            self._unread = False
            journal.add(ClockRead, offset_seconds=self._offset)

    def jump(self, journal: Journal, seconds: int) -> None:
        """Move it by *seconds*, and note in *journal* what was read."""
        before, after = self.move(seconds)
        journal.add(ClockMoved, seconds=seconds, before_seconds=round(before, 3), after_seconds=round(after, 3))

    def close(self) -> None:
        """Remove what is not in its folder. May be called twice."""
        while self._shared:
            _unlink(self._shared.pop())
        if self._watch >= 0:
            os.close(self._watch)
            self._watch = -1

    def _set(self, offset: int) -> None:
        """Replace the file as a whole: nobody may read half a number."""
        fresh = self._file.with_name("new")
        fresh.write_text(f"{offset:+d}\n", encoding="ascii")
        fresh.replace(self._file)
        self._offset = offset

    def _opened(self) -> bool:
        """Tell whether anybody opened the file since the last call."""
        name = self._file.name.encode()
        with suppress(BlockingIOError):
            return name in os.read(self._watch, EVENTS_BYTES)
        return False


def _make_shared(name: str) -> None:
    """Make a free semaphore and zeroed memory, both called *name*."""
    made = _libc.sem_open(b"/" + name.encode(), os.O_CREAT | os.O_EXCL, ctypes.c_uint(0o600), ctypes.c_uint(1))
    if not made:
        code = ctypes.get_errno()
        raise OSError(code, f"sem_open: {os.strerror(code)}")
    _libc.sem_close(ctypes.c_void_p(made))
    (SHARED / name).write_bytes(bytes(SHARED_BYTES))


def _unlink(name: str) -> None:
    for file in (SHARED / name, SHARED / f"sem.{name}"):
        file.unlink(missing_ok=True)


def _sweep() -> None:
    """Remove what harnesses left that were killed."""
    for file in SHARED.glob(f"{leftovers.PREFIX}*-clock-*"):
        pid = file.name.removeprefix(leftovers.PREFIX).partition("-")[0]
        with suppress(OSError):  # another harness was faster, or it is somebody else's
            if pid.isdigit() and not Path(f"/proc/{pid}").exists():
                _unlink(file.name)


def _inotify(folder: Path) -> int:
    """Return a descriptor that tells of every file that is opened in *folder*."""
    made = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if made < 0 or _libc.inotify_add_watch(made, os.fsencode(folder), IN_OPEN) < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"inotify: {os.strerror(code)} (see fs.inotify.max_user_instances)")
    return int(made)
