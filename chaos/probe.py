"""The one function that an agent calls to make its crash points exact.

Standard library only, and a no-op outside a chaos run, so that it may stay in production code::

    from chaos.probe import point

    reply = call_tool(...)
    point("after_act", step)        # a kill here: the effect happened, nothing recorded it yet
    save_checkpoint(...)

In a run, `point` writes one JSON line to the gate named by CHAOS_GATE and blocks until the harness
answers *go*; the harness may end the process instead of answering.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any

GATE = "CHAOS_GATE"
"""Environment variable with the gate's address: `unix:PATH`, `unix:@NAME` (abstract) or `tcp:HOST:PORT`."""

EXIT_WITHOUT_HARNESS = 75  # EX_TEMPFAIL: a run whose harness is gone must not go on unobserved

_free: list[tuple[int, socket.socket]] = []  # (process that connected, connection) of those that do not wait


def active() -> bool:
    """Tell whether a harness is watching this process."""
    return GATE in os.environ


def point(phase: str, step: int, *, key: str | None = None, state: str | None = None, **more: Any) -> None:
    """Announce that execution reached *phase* of *step* and wait for the harness.

    Args:
        phase: one of the phases of `chaos.plan.PHASES`.
        step: number of the step, from 0.
        key: name of the point for people, `step-17` by default.
        state: digest of the agent's state as it stands, if it has one at hand.
        more: further JSON values to record (`snapshot`: the whole state, at `finished`).
    """
    if GATE not in os.environ:
        return
    line = {"point": phase, "step": step, "key": key or f"step-{step}", "state": state, **more}
    data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
    gate = _connect()
    try:
        gate.sendall(data)
        answer = gate.recv(64)
    except ConnectionError:
        answer = b""
    if not answer:
        os._exit(EXIT_WITHOUT_HARNESS)
    _free.append((os.getpid(), gate))


def _connect() -> socket.socket:
    """Return a connection that nobody waits on: a thread or a signal handler may announce while another is held."""
    try:
        while (taken := _free.pop())[0] != os.getpid():  # a fork connects anew
            pass
        return taken[1]
    except IndexError:
        pass
    family, _, address = os.environ[GATE].partition(":")
    if family == "tcp":
        host, _, port = address.rpartition(":")
        connection = socket.create_connection((host, int(port)))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    else:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect("\0" + address[1:] if address.startswith("@") else address)
    return connection
