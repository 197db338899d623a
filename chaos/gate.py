"""The gate: the harness's end of `chaos.probe`. The agent announces a point and stands still until it may go."""

from __future__ import annotations

import os
import selectors
import socket
import time
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import msgspec

from chaos.errors import HarnessError
from chaos.events import NULL
from chaos.plan import CHECKPOINT_WRITE, PHASES
from chaos.sandbox.syscalls import Call, Calls
from chaos.world.holds import Operation, Operations

MAX_LINE_BYTES = 256 << 20  # a whole state of 400 steps with 500 KB each; more is a flood
GO = b'{"go":true}\n'
RECEIVE_BYTES = 1 << 16

_numbers = count(1)


class Announcement(msgspec.Struct, frozen=True):
    """One line from the agent, as `chaos.probe.point` writes it."""

    point: str
    step: int
    key: str = ""
    state: str | None = None
    snapshot: msgspec.Raw = NULL


class Held(NamedTuple):
    """An announcement whose sender waits, or *call*: what the kernel or the world holds for us, and has journalled."""

    said: Announcement
    connection: socket.socket | None
    call: Call | Operation | None = None

    @property
    def places(self) -> tuple[tuple[int, str], ...]:
        """The points, (step, phase), that the agent stands at: a system call may be one in two ways."""
        here = (self.said.step, self.said.point)
        durable = self.call.checkpoint_write if isinstance(self.call, Call) else 0
        return (here, (durable, CHECKPOINT_WRITE)) if durable else (here,)


@dataclass
class _Peer:
    """A connection and the bytes of the line that is still coming."""

    connection: socket.socket
    pending: bytearray


class Gate:
    """One listening socket for all incarnations of one run.

    It is an abstract unix socket: no path to clean up, no limit on the length of a folder's name.
    """

    def __init__(self) -> None:
        name = f"chaos-{os.getpid()}-{next(_numbers)}-{os.urandom(8).hex()}"
        self.address = f"unix:@{name}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind("\0" + name)
        self._listener.listen()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._ready: list[Held] = []
        self.hung_up = False

    def next(self, timeout: float) -> Held | None:
        """Return the next announcement; None after *timeout* seconds, or at once when a connection closed.

        After a None, `hung_up` tells whether the agent closed its connection: most likely it ended.
        """
        self.hung_up = False
        deadline = time.monotonic() + timeout
        while not self._ready:
            events = self._selector.select(max(0.0, deadline - time.monotonic()))
            for key, _ in events:
                self._receive(key.data)
            if self.hung_up or not events:
                break
        return self._ready.pop(0) if self._ready else None

    def attend(self, calls: Calls | Operations) -> None:
        """Take what is held elsewhere in the incarnation that has just begun, or begins now, until it is over."""
        self._selector.register(calls, selectors.EVENT_READ, calls)

    def go(self, held: Held) -> None:
        """Let the agent go on; an agent that has meanwhile died is no error here."""
        if held.call is not None:
            held.call.go()
        if held.connection is None:
            return
        try:
            held.connection.sendall(GO)
        except OSError:
            self.hung_up = True

    def drop(self) -> None:
        """Forget all connections of an incarnation that is gone."""
        self._ready.clear()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, Calls | Operations):
                self._selector.unregister(key.fileobj)
                if isinstance(key.data, Operations):
                    key.data.end()
            elif key.data is not None:
                self._hang_up(key.data)
        self.hung_up = False

    def close(self) -> None:
        """Close every socket; may be called twice."""
        if self._listener.fileno() < 0:
            return
        self.drop()
        self._selector.close()
        self._listener.close()

    def _receive(self, peer: _Peer | Calls | Operations | None) -> None:
        if isinstance(peer, Calls | Operations):
            return self._receive_call(peer)
        if peer is None:
            connection, _ = self._listener.accept()
            self._selector.register(connection, selectors.EVENT_READ, _Peer(connection, bytearray()))
            return
        try:
            data = peer.connection.recv(RECEIVE_BYTES)
        except ConnectionError:
            data = b""
        if not data:
            self._hang_up(peer)
            self.hung_up = True
            return
        searched = len(peer.pending)
        peer.pending += data
        if len(peer.pending) > MAX_LINE_BYTES:
            raise HarnessError(f"the agent sent a line of more than {MAX_LINE_BYTES >> 20} MiB to the gate")
        while (end := peer.pending.find(b"\n", searched)) >= 0:
            self._ready.append(Held(_decode(bytes(peer.pending[:end])), peer.connection))
            del peer.pending[: end + 1]
            searched = 0

    def _receive_call(self, calls: Calls | Operations) -> None:
        if call := calls.receive():
            self._ready.append(Held(Announcement(call.phase, call.number, key=call.path), None, call))
        elif isinstance(calls, Calls) and calls.over:
            self._selector.unregister(calls)
            self.hung_up = True

    def _hang_up(self, peer: _Peer) -> None:
        self._selector.unregister(peer.connection)
        peer.connection.close()


_announcements = msgspec.json.Decoder(Announcement)


def _decode(line: bytes) -> Announcement:
    try:
        said = _announcements.decode(line)
    except msgspec.DecodeError as error:
        raise HarnessError(
            f"the agent sent {line[:80]!r} to the gate ({error}); it takes lines like "
            '{"point": "after_act", "step": 17}, as chaos.probe.point writes them'
        ) from None
    if said.point not in PHASES:
        raise HarnessError(f"the agent announced the phase {said.point!r}; the phases are {', '.join(PHASES)}")
    return said
