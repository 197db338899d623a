"""A process that has imported a runtime once and forks: starting an agent then costs milliseconds, not a second.

Run as `python -m chaos.sandbox.forkserver FD MODULE...`. FD is one end of a socket pair; each message on it is
"KIND\\nHARNESS_PID\\nWHAT". With three files attached (control, output, errors) it starts one child, in the folder
WHAT, and is answered by its pid:

    launch    the child is a launcher (launcher.py), but its agent goes on from here instead of calling exec
    agent     the child is the agent itself, the first process of a PID namespace, and this server is its launcher: that
              saves a fork, but takes the right to make namespaces. Behind the folder are the order's `cgroups`
    read      the child is the command of the order on control

Without files, it is answered by the exit code, or minus the signal, of a child:

    ended     the one with the number WHAT, which was to read

The server ends when the harness's end of FD closes, and its agents with it.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import runpy
import select
import signal
import socket
import sys
import traceback
from typing import NamedTuple, NoReturn

from chaos.sandbox import launcher
from chaos.sandbox.launcher import Order

MESSAGE_BYTES = 1 << 16  # a kind, a number and the path of a folder
FILES = 3


class Agent(NamedTuple):
    """A live child that is an agent, the harness's end of whose conversation is *control*."""

    pid: int
    control: int
    cgroups: list[bytes]


def serve(control: int, modules: list[str]) -> None:
    """Import *modules*, then fork a child for each message until there are no more."""
    for module in modules:
        importlib.import_module(module)
    gc.freeze()  # a collection in a child must not copy every page
    if len(os.listdir("/proc/self/task")) > 1:  # a fork has one thread only: what the others held would stay locked
        os.write(control, b"threads\n")
        return
    os.write(control, b"ready\n")
    server = Server(control)
    poller = select.poll()
    poller.register(control, select.POLLIN)
    while server.connected:
        for file, _ in poller.poll():
            if file != control:
                poller.unregister(file)
                server.tell_end(file)
            elif (begun := server.serve()) is not None:
                poller.register(begun, select.POLLIN)
    server.end_agents()


class Server:
    """What the server knows of its children."""

    def __init__(self, control: int) -> None:
        self._control, self._pid = control, os.getpid()
        self._namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._agents: dict[int, Agent] = {}  # by pidfd
        self._launchers = set[int]()  # their harness watches them by pidfd
        self.connected = True

    def serve(self) -> int | None:
        """Do what the next message says; return the pidfd of an agent if it began."""
        connection = socket.socket(fileno=self._control)
        message, files, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, FILES)
        connection.detach()
        self.connected = bool(message)
        if not message:
            return None
        kind, harness, what = message.split(b"\n", 2)
        if kind == b"ended":
            self._answer(os.waitstatus_to_exitcode(os.waitpid(int(what), 0)[1]))
            return None
        folder, *cgroups = what.split(b"\0")
        child = self._forked_first() if kind == b"agent" else os.fork()
        if child == 0:
            os.close(self._control)
            _begin(kind, int(harness), folder, self._pid, *files)
        for file in files[1:] if kind == b"agent" else files:
            os.close(file)
        self._answer(child)
        if kind == b"launch":
            self._launchers.add(child)
        self._launchers -= {pid for pid in self._launchers if os.waitpid(pid, os.WNOHANG)[0]}
        if kind != b"agent":
            return None
        begun = os.pidfd_open(child)
        self._agents[begun] = Agent(child, files[0], cgroups)
        return begun

    def tell_end(self, file: int) -> None:
        """Tell its harness how the agent with the pidfd *file* ended; nothing of its tree is left."""
        agent = self._agents.pop(file)
        launcher.say(agent.control, f"exit {os.waitstatus_to_exitcode(os.waitpid(agent.pid, 0)[1])}")
        os.close(agent.control)
        os.close(file)

    def end_agents(self) -> None:
        """End all agents, the harness being dead, and remove their cgroups."""
        for file, agent in list(self._agents.items()):
            os.kill(agent.pid, signal.SIGKILL)
            self.tell_end(file)
            launcher.remove_cgroups(agent.cgroups)

    def _forked_first(self) -> int:
        """Fork a child that is the first process of a PID namespace; we stay outside, and so do later children."""
        launcher.call("unshare pid", launcher.libc.unshare(launcher.CLONE_NEWPID))
        child = -1
        try:
            child = os.fork()
        finally:
            if child:
                launcher.call("setns pid", launcher.libc.setns(self._namespace, launcher.CLONE_NEWPID))
        return child

    def _answer(self, number: int) -> None:
        os.write(self._control, b"%d\n" % number)


def _begin(kind: bytes, harness: int, folder: bytes, server: int, control: int, output: int, errors: int) -> NoReturn:
    """Become what was asked for; this is the child, and nothing of it may return into the server's loop."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.chdir(folder)
    if kind == b"agent":
        _be_agent(control)
    else:
        os.setsid()
        if kind == b"launch":
            launcher.main(control, harness, server, _go_on)
        else:
            launcher.libc.prctl(launcher.PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
            if os.getppid() == server:
                _go_on(launcher.receive(control))
    os._exit(0)


def _be_agent(control: int) -> None:
    """Have the conversation of launcher.py about us; the number that the harness knows us by is not known here."""
    order = launcher.receive(control)
    try:
        cgroups = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in order.cgroups]
        made = launcher.enter_namespaces(order, first=True)
        launcher.say(control, f"pid 0 {' '.join(made)}")
        launcher.become_agent(control, order, cgroups, lambda order: _say_running(control, order))
    except BaseException as error:
        launcher.send(control, f"failed {getattr(error, 'strerror', None) or repr(error)}")
        os._exit(127)


def _say_running(control: int, order: Order) -> NoReturn:
    launcher.send(control, "running")
    _go_on(order)


def _go_on(order: Order) -> NoReturn:
    """Be the agent: what `exec` of `python -m MODULE ARGUMENT...` would do, with the imports already done."""
    sys.stdout.flush()
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # the pipe on which the launcher waits for an exec is among them
    os.environ.clear()
    os.environ.update({os.fsdecode(name): os.fsdecode(value) for name, value in order.env.items()})
    words = [os.fsdecode(word) for word in order.argv]
    sys.argv = words[2:]
    sys.path[:0] = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # an interpreter ignores them, the launcher has reset them
        signal.signal(number, signal.SIG_IGN)
    status: object = 0
    try:
        runpy.run_module(words[2], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
        status = 1
    _end(status)


def _end(status: object) -> NoReturn:
    """End as an interpreter does: its threads are waited for, its exit functions run, its buffers are written."""
    import atexit
    import threading

    if isinstance(status, str):
        print(status, file=sys.stderr)
    threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter itself calls first
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status if isinstance(status, int) else 0 if status is None else 1)


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2:])
