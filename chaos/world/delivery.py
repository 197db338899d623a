"""How a response goes wrong on the wire: it is held, lost, cut off, or ends before its end."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

End = Literal["held", "lost", "dropped", "truncated", "whole"]

_RESET = struct.pack("ii", 1, 0)  # linger on, zero seconds: close() sends RST instead of FIN
LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True)
class Spoil:
    """What happens to one response instead of being sent as a whole.

    Args:
        end: "held" for *seconds* and closed without an answer; "lost" and "dropped" end in a reset, before or after
            the first *events* events of a stream; "truncated" ends after them as a whole stream does; "whole" is sent
            as it is, because its content is what is wrong.
        note: called with the number of the body's bytes that are sent and the seconds that it was held, where the
            client is still there: right before the last thing happens, so that what it does next comes after it.
    """

    end: End
    note: Callable[[int, float], None]
    seconds: float = 0.0
    events: int = 0


def chunk(part: bytes) -> bytes:
    """Return *part* framed for a chunked body."""
    return b"%x\r\n%b\r\n" % (len(part), part)


def deliver(connection: socket.socket, head: bytes, parts: Sequence[bytes], spoil: Spoil, *, chunked: bool) -> None:
    """Do to the response what *spoil* says; the connection is of no use afterwards, unless it ended as a whole one.

    Args:
        head: status line and headers.
        parts: the body, or the events of a stream.
        chunked: whether each part is a chunk.
    """
    if spoil.end == "held":
        spoil.note(0, _held(connection, spoil.seconds))
        return
    if spoil.end == "lost":
        _finally(connection, spoil, 0)
        return
    frame, last = (chunk, LAST_CHUNK) if chunked else (bytes, b"")
    if spoil.end == "whole":
        if _there(connection):
            spoil.note(sum(map(len, parts)), 0.0)
        connection.sendall(head + b"".join(map(frame, parts)) + last)
        return
    sent, rest = parts[: spoil.events], parts[spoil.events]
    size, half = sum(map(len, sent)), len(rest) // 2
    connection.sendall(head + b"".join(map(frame, sent)))
    if spoil.end == "truncated":
        if _there(connection):
            spoil.note(size, 0.0)
        connection.sendall(last)
        return
    framed = frame(rest)
    connection.sendall(framed[: framed.index(rest) + half])
    _finally(connection, spoil, size + half)


def _finally(connection: socket.socket, spoil: Spoil, sent: int) -> None:
    """Reset the connection, at once: a FIN before it would be a clean end."""
    if _there(connection):
        spoil.note(sent, 0.0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    os.close(connection.detach())


def _held(connection: socket.socket, seconds: float) -> float:
    """Wait until *seconds* are over or the client closes; return the seconds that it took."""
    began = time.monotonic()
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    poll.poll(seconds * 1000)
    return round(time.monotonic() - began, 6)


def _there(connection: socket.socket) -> bool:
    """Tell whether the client's end is still open."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return not poll.poll(0)
