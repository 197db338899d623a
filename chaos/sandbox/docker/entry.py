"""The first program of a container: it fetches its order from the harness, and becomes the agent.

Run as `python -I -S entry.py NAME`, with the name of an abstract unix socket of the harness. So one container, whose
command can never change, holds one incarnation after the other, each with its own command and environment, and each of
them is pid 1. With the order come the pipes for its output. The connection closes with the exec: "running"; a text that
comes before says why not.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

LENGTH_BYTES = 8
FILES = 2  # standard output and standard error
CHUNK_BYTES = 1 << 20


def receive(control: socket.socket) -> dict[str, object]:
    """Read the order, and put the pipes that come with it in the place of our output."""
    head, files, _, _ = socket.recv_fds(control, LENGTH_BYTES, FILES)
    for number, file in enumerate(files, start=1):
        os.dup2(file, number)
        os.close(file)
    length, body = int.from_bytes(head, "big"), b""
    while len(body) < length:
        chunk = control.recv(min(length - len(body), CHUNK_BYTES))
        if not chunk:
            os._exit(1)
        body += chunk
    order: dict[str, object] = json.loads(body)
    return order


def become(order: dict) -> None:  # type: ignore[type-arg]  # as JSON has it
    """Become the order's command; return only by an exception."""
    for folder in order["folders"]:  # the last incarnation may have removed one
        os.makedirs(folder, exist_ok=True)
    os.chdir(order["cwd"])
    os.umask(order["umask"])
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(order["command"][0], order["command"], order["env"])


def main(name: str) -> None:
    """Fetch the order and carry it out."""
    control = socket.socket(socket.AF_UNIX)
    control.connect("\0" + name)
    order = receive(control)
    try:
        become(order)
    except Exception as error:
        control.sendall((getattr(error, "strerror", None) or repr(error)).encode())
    os._exit(127)


if __name__ == "__main__":
    main(sys.argv[1])
