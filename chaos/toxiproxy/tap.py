"""Taps: relays on 127.0.0.1 that pass every byte and every end of a connection on as it came, and tell of it.

One stands before a proxy and one behind it, so that what the proxy does to the bytes is seen from outside, whichever
server it belongs to: what went in and when, what came out and when, and who ended a connection.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from chaos.errors import HarnessError
from chaos.toxiproxy.pipeline import LINGER_NOT

HOST = "127.0.0.1"
BACKLOG = 128
CALL_SECONDS = 30.0  # what is asked of the loop takes microseconds; a swamped machine must not fail a run

T = TypeVar("T")


class Watcher(Protocol):
    """What learns of one relayed connection; called in the loop's thread."""

    def passed(self, stream: str, size: int) -> None:
        """So many bytes came in at the tap, on their way "upstream" or "downstream"."""
        ...

    def ended(self, side: str, how: str) -> None:
        """The "client" or the "server" of the tap ended: "closed", "reset", or "refused" where it never began."""
        ...


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="taps", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what *work* does in the loop."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self.loop).result(CALL_SECONDS)
        except TimeoutError:
            raise HarnessError(f"the taps of the run's links do not answer within {CALL_SECONDS:g} s") from None

    def close(self) -> None:
        """Stop; whatever still runs is cancelled. May be called twice."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._stop)
            self._thread.join()
            self.loop.close()

    def _stop(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.call_soon(self.loop.stop)


class Tap:
    """Relays connections to *destination* (HOST, PORT). All methods but the constructor belong to the loop.

    Args:
        watch: called for each connection; returns what learns of it.
        pause: awaited with its watcher before a connection is passed on.
    """

    def __init__(
        self,
        destination: tuple[str, int],
        watch: Callable[[], Watcher],
        pause: Callable[[Any], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self.destination, self._watch, self._pause = destination, watch, pause
        self.port = 0
        self._server: asyncio.Server | None = None
        self._relays: set[_Relay] = set()
        self._dialing: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen; on the same port as before, if it was shut."""
        if self._server is None:
            loop = asyncio.get_running_loop()
            listener = socket.create_server((HOST, self.port), backlog=BACKLOG)
            self._server = await loop.create_server(self._accepted, sock=listener)
            self.port = listener.getsockname()[1]

    async def shut(self) -> None:
        """Listen no more: who connects is refused. Connections that are open go on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def close(self) -> None:
        """Listen no more, and cut all connections."""
        await self.shut()
        for task in self._dialing:
            task.cancel()
        for relay in list(self._relays):
            relay.cut()

    def _accepted(self) -> asyncio.Protocol:
        relay = _Relay(self._watch())
        self._relays.add(relay)
        client = _End(relay, "client", "upstream")
        client.made = lambda: self._dial(relay, client)
        relay.gone = lambda: self._relays.discard(relay)
        return client

    def _dial(self, relay: _Relay, client: _End) -> None:
        client.transport.pause_reading()
        task = asyncio.get_running_loop().create_task(self._connect(relay, client))
        self._dialing.add(task)
        task.add_done_callback(self._dialing.discard)

    async def _connect(self, relay: _Relay, client: _End) -> None:
        if self._pause is not None:
            await self._pause(relay.watcher)
        server = _End(relay, "server", "downstream")
        server.other, client.other = client, server
        try:
            await asyncio.get_running_loop().create_connection(lambda: server, *self.destination)
        except OSError:
            relay.watcher.ended("server", "refused")
            client.abort()
            return
        if client.over:
            server.abort()
        elif not server.over:
            client.transport.resume_reading()


class _Relay:
    """One connection: both of its ends."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.ends: list[_End] = []
        self.gone: Callable[[], object] = lambda: None

    def cut(self) -> None:
        for end in self.ends:
            end.abort()


class _End(asyncio.Protocol):
    """One end: what it receives goes to the *other* one."""

    transport: asyncio.Transport

    def __init__(self, relay: _Relay, side: str, stream: str) -> None:
        self.other: _End | None = None
        self.over = True  # there is no connection yet, or no more
        self.made: Callable[[], None] = lambda: None
        self._relay, self._side, self._stream = relay, side, stream
        self._told = self._said_all = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.over = transport, False
        self._relay.ends.append(self)
        self.made()

    def data_received(self, data: bytes) -> None:
        self._relay.watcher.passed(self._stream, len(data))
        if self.other is not None and not self.other.over:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        """Pass a half-close on, and keep the other direction while it has something to say."""
        self._tell("closed")
        self._said_all = True
        if self.other is None or self.other.over:
            return False
        if not self.other._said_all:
            self.other.transport.write_eof()
            return True
        self.other.transport.close()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.over = True
        if exc is not None:
            self._tell("reset")
        if self.other is not None and not self.other.over:
            if exc is not None:
                self.other.abort()
            else:
                self.other.transport.close()
        if all(end.over for end in self._relay.ends):
            self._relay.gone()

    def pause_writing(self) -> None:
        if self.other is not None and not self.other.over:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.over:
            self.other.transport.resume_reading()

    def abort(self) -> None:
        """Reset the connection; what is not sent yet is lost."""
        if not self.over:
            self._told = True  # that was us
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
            self.transport.abort()

    def _tell(self, how: str) -> None:
        if not self._told:
            self._told = True
            self._relay.watcher.ended(self._side, how)
