"""TCP ports for a sandbox: free, kept free while it is down, and nobody else's.

A port from the kernel's ephemeral range may be taken by any outgoing connection while the agent's service is dead;
two harnesses that probe for a free port may find the same one. So ports come from below that range, and a claim is an
abstract unix socket of the port's name: only one process can bind it, and it is gone with that process.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count

from chaos.errors import HarnessError

FIRST, LAST = 20_000, 32_000  # Linux gives outgoing connections ports from 32768 on
STRIDE = 97  # where the search begins: parallel harnesses have pids that follow each other

_numbers = count()


@contextmanager
def claimed(names: tuple[str, ...]) -> Iterator[tuple[tuple[str, int], ...]]:
    """Claim a free port for each of *names*, until the context ends."""
    with ExitStack() as claims:
        yield tuple((name, _claim(claims)) for name in names)


def _claim(claims: ExitStack) -> int:
    size = LAST - FIRST
    start = (os.getpid() * STRIDE + next(_numbers)) % size
    for offset in range(size):
        port = FIRST + (start + offset) % size
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0chaos-port-{port}")
        except OSError:
            claim.close()  # another sandbox has it
            continue
        claims.callback(claim.close)
        if _free(port):
            return port
    raise HarnessError(f"no TCP port from {FIRST} to {LAST} is free on 127.0.0.1")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what a server does; old connections are no matter
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
