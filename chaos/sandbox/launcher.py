"""Starts one agent as the root of its own process tree, waits for it, and reports how it ended.

Run as `python -I -S launcher.py FD HARNESS_PID`. It imports next to nothing, so that it is up in 10 ms. It
stays outside the agent's cgroup and namespaces: the OOM killer must find the agent alone.

The conversation on FD, one end of a socket pair:

    harness     "LENGTH\\n", then LENGTH bytes: an order (see `Order`), its fields joined by NUL
    launcher    "pid PID FEATURE ...\\n"     the agent's number on the host; it has not begun yet
    harness     one byte, read by the agent-to-be: go
    agent       "listener\\n" with a file attached, if the order has a seccomp filter
    launcher    "running\\n" or "failed WHY\\n"
    launcher    "exit STATUS\\n"             exit code, or minus the signal; nothing of the tree is left
"""

# ruff: noqa: SIM105 (contextlib takes 3 ms to import)

from __future__ import annotations

import ctypes
import os
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    Begin = Callable[["Order"], NoReturn]

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID = 0x10000000, 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_SLAVE = 2, 4, 8, 16384, 1 << 19
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}  # and what follows: see syscalls.py
SECCOMP_SET_MODE_FILTER, SECCOMP_FLAGS, EACCES = 1, 1 << 3 | 1 << 5, 13
INSTRUCTION_BYTES = 8
SIGKILL, SIGSTOP, SIG_SETMASK = 9, 19, 2  # `import signal` costs 4 ms of enums
LAST_SIGNAL = 64
REAP_MS = 100  # without a PID namespace orphans become ours; zombies may lie this long

libc = ctypes.CDLL(None, use_errno=True)
libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
libc.signal.restype = ctypes.c_void_p


class Order:
    """What the harness asks for, in the order of its fields on the wire.

    Args:
        mode: "direct" (namespaces by privilege), "user" (inside an own user namespace) or "none".
        hostname: of the agent's UTS namespace.
        filter: seccomp filter in hexadecimal digits, whose listener goes to the harness; empty: none.
        cgroups: files by which to join them (`Cgroup.joins`).
        argv: the agent's command; empty: only try whether all of the above works.
        env: its whole environment, entries "NAME=value".
    """

    def __init__(self, raw: bytes) -> None:
        fields = raw.split(b"\0")
        self.mode = fields[0].decode()
        self.hostname = fields[1]
        self.filter = bytes.fromhex(fields[2].decode())
        cgroups, arguments = int(fields[3]), int(fields[4])
        rest = fields[5:]
        self.cgroups = rest[:cgroups]
        self.argv = rest[cgroups : cgroups + arguments]
        self.env = dict(entry.split(b"=", 1) for entry in rest[cgroups + arguments :] if entry)


def call(what: str, result: int) -> None:
    """Raise the C library's error, naming *what* was tried."""
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def put(path: str, text: str) -> None:
    """Write *text* to a kernel file by one system call, so that its error is not lost at close."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def receive(control: int) -> Order:
    """Read the order; leave everything after it unread."""
    head = b""
    while not head.endswith(b"\n"):
        byte = os.read(control, 1)
        if not byte:
            os._exit(1)
        head += byte
    body, length = b"", int(head)
    while len(body) < length:
        chunk = os.read(control, length - len(body))
        if not chunk:
            os._exit(1)
        body += chunk
    return Order(body)


def say(control: int, line: str) -> None:
    """Tell the harness; that it is dead already shows elsewhere."""
    try:
        os.write(control, line.replace("\n", " ").encode() + b"\n")
    except OSError:
        pass


def enter_namespaces(order: Order, *, first: bool = False) -> list[str]:
    """Leave the host's namespaces and return the names of those that are new.

    No network namespace: the agent must reach the harness on the loopback device.

    Args:
        first: we are the first process of a new PID namespace already.
    """
    made = []
    if order.mode == "user":
        uid, gid = os.geteuid(), os.getegid()
        call("unshare user", libc.unshare(CLONE_NEWUSER))
        put("/proc/self/setgroups", "deny")
        put("/proc/self/uid_map", f"{uid} {uid} 1")
        put("/proc/self/gid_map", f"{gid} {gid} 1")
        made.append("user")
    if not first:
        call("unshare pid", libc.unshare(CLONE_NEWPID))
    call("unshare mount", libc.unshare(CLONE_NEWNS))
    # Slave, not private: an unmount on the host must not be kept busy by our copy.
    call("mount /", libc.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_SLAVE), None))
    made += ["pid", "mount"]
    if libc.unshare(CLONE_NEWUTS) == 0 and libc.sethostname(order.hostname, len(order.hostname)) == 0:
        made.append("uts")
    if libc.unshare(CLONE_NEWIPC) == 0:
        made.append("ipc")
    return made


def send(control: int, line: str) -> None:
    """Tell the harness by a call that no filter of ours holds: nobody might be there yet to let a `write` go."""
    text = line.replace("\n", " ").encode() + b"\n"
    libc.send(control, text, ctypes.c_size_t(len(text)), 0)


def become_agent(control: int, order: Order, cgroups: list[int], begin: Begin) -> None:
    """Turn the forked child into the agent; return only by an exception."""
    os.setsid()
    for file in cgroups:
        os.write(file, b"0")
    # The launcher kills us when the harness dies; this is for the case that both die at once.
    libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(SIGKILL))
    if order.mode != "none":
        # Containers that mask parts of /proc refuse this; the host's /proc serves as well as it can.
        flags = ctypes.c_ulong(MS_NOSUID | MS_NODEV | MS_NOEXEC)
        libc.mount(b"proc", b"/proc", b"proc", flags, None)
    for number in range(1, LAST_SIGNAL + 1):  # whatever the harness ignores, the agent starts like any other
        if number not in (SIGKILL, SIGSTOP):
            libc.signal(number, None)
    libc.sigprocmask(SIG_SETMASK, ctypes.create_string_buffer(128), None)
    if not os.read(control, 1):
        os._exit(1)
    if not order.argv:
        os._exit(0)
    if order.filter:
        hold_calls(control, order.filter)
    begin(order)


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def hold_calls(control: int, filter: bytes) -> None:
    """Have the kernel hold the system calls that *filter* is for, and hand the harness the file that tells it."""
    import socket  # here: it takes 5 ms

    program = Program(len(filter) // INSTRUCTION_BYTES, filter)
    number = SYS_SECCOMP[os.uname().machine]
    listener = libc.syscall(number, SECCOMP_SET_MODE_FILTER, SECCOMP_FLAGS, ctypes.byref(program))
    if listener < 0 and ctypes.get_errno() == EACCES:  # without privileges: only for who can get none by exec either
        libc.prctl(PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0)))
        listener = libc.syscall(number, SECCOMP_SET_MODE_FILTER, SECCOMP_FLAGS, ctypes.byref(program))
    call("seccomp", min(0, listener))
    connection = socket.socket(fileno=control)
    socket.send_fds(connection, [b"listener\n"], [listener])
    connection.detach()
    os.close(listener)


def execute(order: Order) -> NoReturn:
    """Become the order's command."""
    os.execvpe(order.argv[0], order.argv, order.env)


def children() -> list[int]:
    """Return our own children, zombies too."""
    own = os.getpid()
    try:
        with open(f"/proc/self/task/{own}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat") as file:
                if name.isdigit() and int(file.read().rpartition(")")[2].split()[1]) == own:
                    found.append(int(name))
        except OSError:
            continue
    return found


def sweep() -> None:
    """Kill and reap every descendant: orphans become our children, so the last one does in the end."""
    while True:
        for pid in children():
            try:
                os.kill(pid, SIGKILL)
            except ProcessLookupError:
                pass
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def attend(agent: int, harness: int) -> int:
    """Wait until the agent ends and return its status; end it when the harness (a pidfd) ends."""
    poller = select.poll()
    agent_file = os.pidfd_open(agent)
    poller.register(agent_file, select.POLLIN)
    poller.register(harness, select.POLLIN)
    while True:
        ready = dict(poller.poll(REAP_MS))
        if harness in ready:
            os.kill(agent, SIGKILL)  # not reaped yet, so the number is still its own
        pid, status = 1, 0
        while pid:
            pid, status = os.waitpid(-1, os.WNOHANG if agent_file not in ready else 0)
            if pid == agent:
                return os.waitstatus_to_exitcode(status)


def remove_cgroups(files: list[bytes]) -> None:
    """Remove the empty cgroups with *files*, of a dead harness; what cannot go now is swept by the next harness."""
    for file in files:
        try:
            os.rmdir(os.path.dirname(file))
        except OSError:
            pass


def main(control: int, harness_pid: int, parent: int, begin: Begin) -> None:
    """Carry out one order, from start to end; *parent* is who started us, *begin* makes the agent of the last fork."""
    os.set_inheritable(control, False)
    harness = os.pidfd_open(harness_pid)  # not PDEATHSIG: that is bound to the thread that started us
    if os.getppid() != parent:
        return
    order = receive(control)
    try:
        cgroups = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in order.cgroups]
        made = [] if order.mode == "none" else enter_namespaces(order)
    except OSError as error:
        return say(control, f"failed {error.strerror} {error.filename or ''}")
    libc.prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1))
    begun, told = os.pipe()
    agent = os.fork()
    if agent == 0:
        try:
            become_agent(control, order, cgroups, begin)
        except BaseException as error:
            why = getattr(error, "strerror", None) or repr(error)
            if order.filter:  # a write might be held already
                send(control, f"failed {why}")
            else:
                os.write(told, why.encode())
        os._exit(127)
    os.close(told)
    say(control, f"pid {agent} {' '.join(made)}")
    failure = os.read(begun, 4096).decode()  # closed by a successful exec
    say(control, f"failed {failure}" if failure else "running")
    status = attend(agent, harness)
    sweep()
    say(control, f"exit {status}")
    if select.select([harness], [], [], 0)[0]:
        remove_cgroups(order.cgroups)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[2]), execute)
