"""A Toxiproxy server for one run: the embedded one, the real one as our child, or somebody's on this machine."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from chaos import ports
from chaos.errors import HarnessError
from chaos.servers._daemon import Daemon
from chaos.toxiproxy.client import Client
from chaos.toxiproxy.embedded import Embedded

PROGRAM = "toxiproxy-server"
LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")


class Driven(NamedTuple):
    """A server's *client*, and what the server calls itself."""

    client: Client
    name: str


@contextmanager
def opened(wanted: str, folder: Path, seed: int) -> Iterator[Driven]:
    """Have a server until the context ends.

    Args:
        wanted: HOST:PORT of somebody's interface; the name or path of the server's program, to start it; "" for ours.
        folder: where a program runs.
        seed: of what the embedded one leaves to chance. The real one has a `-seed`, which 2.12 does not use.

    Raises:
        HarnessError: there is no such server, or it does not answer.
    """
    with ExitStack() as stack:
        if not wanted:
            embedded = Embedded(seed)
            stack.callback(embedded.close)
            address, kind = embedded.address, "embedded"
        elif (program := shutil.which(wanted)) is not None:
            address, kind = _started(program, folder, stack), PROGRAM
        else:
            address, kind = _local(wanted), PROGRAM
        client = Client(address)
        stack.callback(client.close)
        yield Driven(client, f"{kind} {client.version()}")


def _started(program: str, folder: Path, stack: ExitStack) -> str:
    """Start the real server and return the address of its interface."""
    port = stack.enter_context(ports.claimed(("toxiproxy",)))[0][1]
    daemon = Daemon((program, "-host", "127.0.0.1", "-port", str(port)), folder)
    stack.callback(daemon.stop)
    daemon.await_ready(lambda: _listens(port))
    return f"127.0.0.1:{port}"


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _local(address: str) -> str:
    """Return *address*; its proxies will listen on 127.0.0.1, and lead there."""
    host, colon, port = address.removeprefix("http://").rstrip("/").rpartition(":")
    if not colon or not port.isdigit():
        raise HarnessError(
            f"--chaos-toxiproxy {address}: neither a program on the PATH nor HOST:PORT of a server's API;"
            f" write {PROGRAM} or 127.0.0.1:8474"
        )
    if host not in LOOPBACK:
        raise HarnessError(
            f"--chaos-toxiproxy {address}: the server must run on this machine, for its proxies listen on 127.0.0.1"
            " and lead to the world there"
        )
    return f"{host}:{port}"
