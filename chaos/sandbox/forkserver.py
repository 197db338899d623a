"""A process that has imported a runtime once and forks: starting an agent then costs milliseconds, not a second.

Run as `python -m chaos.sandbox.forkserver FD MODULE...`. FD is one end of a socket pair; each message on it is
"KIND\\nHARNESS_PID\\nFOLDER" with three files attached (control, output, errors), and starts one child:

    launch    the child is a launcher (launcher.py), but its agent goes on from here instead of calling exec
    read      the child has a command run, given as an order, and says "exit STATUS" on control

The answer is the child's pid. The server ends when the harness's end of FD closes.
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy
import signal
import socket
import sys
import traceback
from typing import NoReturn

from chaos.sandbox import launcher
from chaos.sandbox.launcher import Order

MESSAGE_BYTES = 1 << 16  # a kind, a number and the path of a folder
FILES = 3


def serve(control: int, modules: list[str]) -> None:
    """Import *modules*, then fork a child for each message until there are no more."""
    for module in modules:
        importlib.import_module(module)
    gc.freeze()  # a collection in a child must not copy every page
    server = os.getpid()
    if len(os.listdir("/proc/self/task")) > 1:  # a fork has one thread only: what the others held would stay locked
        os.write(control, b"threads\n")
        return
    os.write(control, b"ready\n")
    while True:
        connection = socket.socket(fileno=control)
        message, files, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, FILES)
        connection.detach()
        if not message:
            return
        kind, harness, folder = message.split(b"\n", 2)
        child = os.fork()
        if child == 0:
            os.close(control)
            _begin(kind, int(harness), folder, server, *files)
        for file in files:
            os.close(file)
        os.write(control, b"%d\n" % child)
        _reap()


def _reap() -> None:
    """Take leave of children that have ended; their harness watches them by pidfd."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _begin(kind: bytes, harness: int, folder: bytes, server: int, control: int, output: int, errors: int) -> NoReturn:
    """Become what was asked for; this is the child, and nothing of it may return into the server's loop."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.chdir(folder)
    if kind == b"launch":
        launcher.main(control, harness, server, _go_on)
    else:
        _read(control)
    os._exit(0)


def _read(control: int) -> None:
    """Run the command of an order in a child of our own and say how it ended."""
    order = launcher.receive(control)
    if (child := os.fork()) == 0:
        _go_on(order)
    launcher.say(control, f"exit {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")


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
