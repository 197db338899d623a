"""System calls on the durable zone, each held by the kernel until the harness answers: points of any program.

The agent's first process is given a seccomp filter that notifies us of a few calls (seccomp_unotify(2)); it holds for
all threads and children, in any language, and slows nothing else down. A held call has not begun: a process that is
killed there never made it. Calls are counted over the whole tree in the order in which they come, which ptrace tools
do not: strace counts in each thread for itself, so that of a shell script's `mv` each one is the first.

Not seen: stores into mapped files, io_uring, and what 32-bit programs do.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import select
import struct
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from chaos.events.done import CallFailed
from chaos.events.seen import Called
from chaos.journal import Journal
from chaos.plan import CHECKPOINT_CALLS, CHECKPOINT_WRITE, SYSCALLS

# linux/audit.h, and the numbers of asm/unistd_64.h and asm-generic/unistd.h
ARCHITECTURES: Mapping[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NUMBERS: Mapping[str, Mapping[str, Mapping[str, int]]] = {
    "x86_64": {
        "write": {"write": 1, "pwrite64": 18, "writev": 20, "pwritev": 296, "pwritev2": 328},
        "fsync": {"fsync": 74, "fdatasync": 75},
        "rename": {"rename": 82, "renameat": 264, "renameat2": 316},
    },
    "aarch64": {
        "write": {"write": 64, "writev": 66, "pwrite64": 68, "pwritev": 70, "pwritev2": 287},
        "fsync": {"fsync": 82, "fdatasync": 83},
        "rename": {"renameat": 38, "renameat2": 276},
    },
}

# linux/seccomp.h
SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}
SET_MODE_FILTER = 1
NEW_LISTENER = 1 << 3
WAIT_KILLABLE_RECV = 1 << 5  # a signal with a handler does not break off a held call, which would come a second time
NOTIF_RECV, NOTIF_SEND, NOTIF_ID_VALID = 0xC0502100, 0xC0182101, 0x40082102
NOTIFICATION = struct.Struct("QIIiIQ6Q")  # id, pid, flags; nr, arch, instruction pointer, arguments
ANSWER = struct.Struct("QqiI")  # id, value, error, flags
CONTINUE = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE

# linux/bpf_common.h: instructions (code, if true, if false, operand)
INSTRUCTION = struct.Struct("HBBI")
LOAD, EQUALS, RETURN = 0x20, 0x15, 0x06
NUMBER_AT, ARCHITECTURE_AT = 0, 4  # offsets in struct seccomp_data
ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000

AT_FDCWD = -100
PATH_MAX = 4096
PAGE = 4096
DELETED = " (deleted)"


def missing() -> str:
    """Return what keeps this machine from holding system calls, and the remedy; "" if nothing."""
    machine = platform.machine()
    if machine not in NUMBERS:
        return f"no table of system calls for {machine}; run it on {' or '.join(NUMBERS)}"
    libc = ctypes.CDLL(None, use_errno=True)
    # A filter at address 0: EFAULT says that everything else is right, EINVAL that the kernel does not know a flag.
    libc.syscall(SYS_SECCOMP[machine], SET_MODE_FILTER, NEW_LISTENER | WAIT_KILLABLE_RECV, None)
    if ctypes.get_errno() == errno.EFAULT:
        return ""
    why = os.strerror(ctypes.get_errno())
    return f"the kernel holds no system calls (seccomp: {why}); needs Linux 5.19, and in a container seccomp=unconfined"


def program(phases: Collection[str]) -> bytes:
    """Return the seccomp filter that notifies us of the calls of *phases* and allows all others."""
    machine = platform.machine()
    numbers = [number for phase in sorted(phases) for number in NUMBERS[machine][phase].values()]
    lines = [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (EQUALS, 1, 0, ARCHITECTURES[machine]),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, NUMBER_AT),
        *((EQUALS, len(numbers) - place, 0, number) for place, number in enumerate(numbers)),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, NOTIFY),
    ]
    return b"".join(INSTRUCTION.pack(*line) for line in lines)


@runtime_checkable
class Holder(Protocol):
    """A sandbox whose agent can be started with its system calls held."""

    def hold(self, calls: Calls) -> None:
        """Start every incarnation from now on under *calls*."""
        ...


@dataclass(frozen=True)
class Call:
    """A call that the kernel holds; see `Called`. *calls* answers it."""

    phase: str
    number: int
    name: str
    path: str
    pid: int
    id: int
    calls: Calls
    checkpoint_write: int = 0

    def go(self) -> None:
        """Let the kernel execute it, or fail it if it was armed to."""
        self.calls.answer(self)


class Calls:
    """The held calls of one run; *phases* are those that are held and counted.

    Args:
        durable: the zone; calls on files elsewhere are let go at once and not counted.
    """

    def __init__(self, durable: Path, phases: Collection[str], journal: Journal) -> None:
        self.program = program(phases)
        self._durable, self._journal = os.fspath(durable), journal
        self._all_durable = frozenset(phases) >= CHECKPOINT_CALLS
        self._names = {
            number: (phase, name)
            for phase in phases
            for name, number in NUMBERS[platform.machine()][phase].items()
        }  # fmt: skip
        self._listener = -1
        self._counts: Counter[str] = Counter()
        self._armed: tuple[str, int, int] = ("", 0, 0)
        self.held: Call | None = None  # the one that was received last, if it has no answer yet

    def listen(self, listener: int) -> None:
        """Take the notifications of a new incarnation from *listener*, and count from 1 again."""
        self.close()
        self._listener, self.held = listener, None
        self._counts.clear()

    def fileno(self) -> int:
        """Return what becomes readable when a call is held or the incarnation is over; -1 before there is one."""
        return self._listener

    @property
    def over(self) -> bool:
        """Whether no process of the incarnation is left."""
        poller = select.poll()
        poller.register(self._listener, 0)
        return bool(poller.poll(0))

    def receive(self) -> Call | None:
        """Return the call that is held now; None if it was none of ours and is let go already, or its thread died."""
        poller = select.poll()
        poller.register(self._listener, select.POLLIN)
        if not any(event & select.POLLIN for _, event in poller.poll(0)):
            return None
        buffer = bytearray(NOTIFICATION.size)
        try:
            fcntl.ioctl(self._listener, NOTIF_RECV, buffer)
        except FileNotFoundError:
            return None
        id_, pid, _, number, _, _, *arguments = NOTIFICATION.unpack(buffer)
        phase, name = self._names[number]
        path = self._path(pid, phase, name, arguments)
        if not path or not self._valid(id_):
            self._send(id_, 0, CONTINUE)
            return None
        self._counts[phase] += 1
        number, durable = self._counts[phase], self._makes_durable(phase)
        self._journal.add(
            Called, phase=phase, number=number, name=name, path=path, pid=pid, checkpoint_write=durable
        )  # fmt: skip
        self.held = Call(phase, number, name, path, pid, id_, self, durable)
        return self.held

    def _makes_durable(self, phase: str) -> int:
        """Count a call of *phase* among those that make durable, if all of them are held; return its number, or 0."""
        if phase not in CHECKPOINT_CALLS or not self._all_durable:
            return 0
        self._counts[CHECKPOINT_WRITE] += 1
        return self._counts[CHECKPOINT_WRITE]

    def fail(self, phase: str, error: int, times: int) -> None:
        """Fail the next *times* calls of *phase* with *error*; what is held right now is the first of them."""
        self._armed = phase, error, times

    def answer(self, call: Call) -> None:
        """Let *call* go on, or fail it; one whose thread has died is past both."""
        phase, error, times = self._armed
        self.held = None if self.held == call else self.held
        if not times or phase != call.phase:
            self._send(call.id, 0, CONTINUE)
        elif self._send(call.id, -error, 0):
            self._armed = phase, error, times - 1
            said = errno.errorcode.get(error, str(error))
            self._journal.add(
                CallFailed, phase=phase, number=call.number, name=call.name, path=call.path, error=said
            )  # fmt: skip

    def close(self) -> None:
        """Stop listening. May be called twice."""
        if self._listener >= 0:
            os.close(self._listener)
            self._listener = -1

    def _send(self, id_: int, error: int, flags: int) -> bool:
        """Answer; return whether the thread was still waiting for it."""
        try:
            fcntl.ioctl(self._listener, NOTIF_SEND, ANSWER.pack(id_, 0, error, flags))
        except FileNotFoundError:
            return False
        return True

    def _valid(self, id_: int) -> bool:
        """Tell whether the thread still waits: else what /proc said may have been of another one with its number."""
        try:
            fcntl.ioctl(self._listener, NOTIF_ID_VALID, struct.pack("Q", id_))
        except FileNotFoundError:
            return False
        return True

    def _path(self, pid: int, phase: str, name: str, arguments: list[int]) -> str:
        """Return the file that a call is on, relative to the zones; "" if it is not below the durable zone."""
        try:
            if phase != "rename":
                return self._below(os.readlink(f"/proc/{pid}/fd/{_descriptor(arguments[0])}"))
            if name == "rename":
                arguments = [AT_FDCWD, arguments[0], AT_FDCWD, arguments[1]]
            ends = [_named(pid, _descriptor(folder), at) for folder, at in zip(*[iter(arguments[:4])] * 2, strict=True)]
        except OSError:  # no such descriptor, no such address, or gone meanwhile: the kernel will say so itself
            return ""
        return " -> ".join(self._below(end) or end for end in ends) if any(map(self._below, ends)) else ""

    def _below(self, path: str) -> str:
        path = path.removesuffix(DELETED)
        zones = os.path.dirname(self._durable)
        return path[len(zones) + 1 :] if path.startswith(f"{self._durable}/") or path == self._durable else ""


def _descriptor(argument: int) -> int:
    """Return the int that the low half of an argument holds."""
    return ctypes.c_int(argument & 0xFFFFFFFF).value


def _named(pid: int, folder: int, address: int) -> str:
    """Return the path that the text at *address* names, from *folder*, its links followed but for the last part."""
    text = _text(pid, address)
    start = f"/proc/{pid}/cwd" if folder == AT_FDCWD else f"/proc/{pid}/fd/{folder}"
    whole = text if text.startswith("/") else os.path.join(os.readlink(start), text)
    parent, name = os.path.split(whole.rstrip("/"))
    return os.path.join(os.path.realpath(parent), name)


def _text(pid: int, address: int) -> str:
    """Return the C string at *address* of a process."""
    found = b""
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        while b"\0" not in found and len(found) < PATH_MAX:
            at = address + len(found)
            found += os.pread(memory, PAGE - at % PAGE, at)  # not beyond the page: the next one may not be there
    finally:
        os.close(memory)
    return os.fsdecode(found.partition(b"\0")[0])


assert set(SYSCALLS) == set(NUMBERS["x86_64"]) == set(NUMBERS["aarch64"])
