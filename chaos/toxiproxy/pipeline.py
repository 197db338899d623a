"""One connection through a proxy: two chains of stages, one for each direction.

    source ─► noop ─► toxic ─► toxic ─► destination

A stage takes chunks from its inbox, lets its toxic work on them, and sends them to its outbox, which is the inbox of
the next. The end of a chain closes the destination altogether, as Toxiproxy does: half-closed connections end.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import NamedTuple

from chaos.toxiproxy.toxics import Latency, Noop, ResetPeer, Timeout, Toxic

CHUNK_BYTES = 32 * 1024  # what Go's io.Copy reads at a time
LATENCY_CHUNKS = 1024  # that wait side by side; every other toxic works on one at a time
LINGER_NOT = struct.pack("ii", 1, 0)  # SO_LINGER with 0 s: a close discards what is not sent, and resets


class Chunk(NamedTuple):
    """Bytes, and the loop's time since which they are there."""

    data: bytes
    since: float


class Poison(NamedTuple):
    """A toxic as a proxy has it."""

    name: str
    kind: str
    stream: str  # "upstream" | "downstream"
    toxicity: float  # the part of the connections that it is for
    toxic: Toxic


class Channel:
    """Chunks on their way from one stage to the next; a sender waits while *room* of them do."""

    def __init__(self, room: int = 1) -> None:
        self.chunks: deque[Chunk] = deque()
        self.closed = False
        self._room = room
        self._changed = asyncio.Event()

    def push(self, chunk: Chunk) -> None:
        """Add *chunk*, room or not."""
        self.chunks.append(chunk)
        self._wake()

    def close(self) -> None:
        self.closed = True
        self._wake()

    async def send(self, chunk: Chunk) -> None:
        while len(self.chunks) >= self._room:
            await self._wait()
        self.push(chunk)

    async def next(self) -> Chunk | None:
        """Return the next chunk, None at the end. Cancelled, it has taken nothing."""
        while not self.chunks:
            if self.closed:
                return None
            await self._wait()
        chunk = self.chunks.popleft()
        self._wake()
        return chunk

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait(self) -> None:
        await self._changed.wait()


class Stage:
    """One toxic at work on one direction of one connection. *rng* is its own."""

    def __init__(self, inbox: Channel, outbox: Channel, rng: Random) -> None:
        self.inbox, self.outbox, self.rng = inbox, outbox, rng
        self.closed = False
        self.deaf = False  # it comes to its end, whatever it is told
        self.passed = 0  # bytes sent on
        self._held: Chunk | None = None  # taken and not sent on yet
        self._task: asyncio.Task[None] | None = None

    def start(self, poison: Poison) -> None:
        """Let the toxic work, unless this connection is one that it spares."""
        toxic = poison.toxic if self.rng.random() < poison.toxicity else Noop()
        self._task = asyncio.get_running_loop().create_task(self._run(toxic))

    async def interrupt(self) -> None:
        """Stop the toxic; what it holds has been sent on when this returns."""
        if self._task is not None:
            if not self.deaf:
                self._task.cancel()
            await asyncio.wait([self._task])

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self, toxic: Toxic) -> None:
        try:
            await toxic.pipe(self)
        except asyncio.CancelledError:
            if self._held is not None:
                self.outbox.push(self._held)
                self._held = None

    async def next(self, patience: float | None = None, *, closes: bool = True) -> Chunk | None:
        """Return the next chunk, or None at the end or after *patience* s; then the stage is closed as well."""
        try:
            async with asyncio.timeout(patience):
                self._held = await self.inbox.next()
        except TimeoutError:
            self._held = None
        if self._held is None and closes:
            self.close()
        return self._held

    async def send(self, data: bytes, rest: bytes = b"") -> None:
        """Send *data* on; *rest* is what is still held of the same chunk."""
        assert self._held is not None
        since = self._held.since
        self._held = Chunk(data + rest, since)
        await self.outbox.send(Chunk(data, self.now()))
        self.passed += len(data)
        self._held = Chunk(rest, since) if rest else None

    def drop(self) -> None:
        self._held = None

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep_until(self, when: float) -> None:
        await asyncio.sleep(max(0.0, when - self.now()))

    def close(self) -> None:
        self.closed = True
        self.outbox.close()


class End:
    """A socket that may be closed while it is waited for."""

    def __init__(self, sock: socket.socket) -> None:
        self.closed = False
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._waiting: set[asyncio.Task[bytes]] = set()

    async def receive(self) -> bytes:
        """Return what came, b"" at the end, however it came about."""
        return await self._finished(self._loop.sock_recv(self._socket, CHUNK_BYTES))

    async def send(self, data: bytes) -> bool:
        """Send *data*, tell if that worked."""
        return bool(await self._finished(self._sent(data)))

    async def _sent(self, data: bytes) -> bytes:
        await self._loop.sock_sendall(self._socket, data)
        return b"sent"

    async def _finished(self, work: Coroutine[None, None, bytes]) -> bytes:
        """Wait for *work* and return its result, b"" if it failed or the socket was closed meanwhile."""
        if self.closed:
            work.close()
            return b""
        task = self._loop.create_task(work)
        self._waiting.add(task)
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            self._waiting.discard(task)
        return b"" if task.cancelled() or task.exception() else task.result()

    def reset_on_close(self) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)

    def close(self) -> None:
        """Close it at once. The loop must forget its number first, which the next socket may get."""
        if not self.closed:
            self.closed = True
            for task in self._waiting:
                task.cancel()
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()


class Flow:
    """One direction of a connection. *seeded* gives the source of randomness for the toxic of a name."""

    def __init__(
        self, source: End, destination: End, poisons: Sequence[Poison], seeded: Callable[[str], Random]
    ) -> None:
        self._source, self._destination, self._seeded = source, destination, seeded
        self._first, self._last = Channel(), Channel()
        self._stages = [Stage(self._first, self._last, seeded(HEAD.name))]
        self._poisons = [HEAD]
        for poison in poisons:
            if isinstance(poison.toxic, ResetPeer):  # whoever it spares (toxicity): the real server does it too
                source.reset_on_close()
                destination.reset_on_close()
            self._append(poison)
        for stage, poison in zip(self._stages, self._poisons, strict=True):
            stage.start(poison)
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def run(self) -> None:
        """Pass everything on until the chain is at its end; then the destination is closed."""
        while (chunk := await self._last.next()) and await self._destination.send(chunk.data):
            pass
        self._destination.close()

    async def _read(self) -> None:
        while data := await self._source.receive():
            await self._first.send(Chunk(data, asyncio.get_running_loop().time()))
        self._first.close()

    def add(self, poison: Poison) -> None:
        """Have another toxic at the end of the chain."""
        stage = self._append(poison)
        if not stage.closed:
            stage.start(poison)

    async def update(self, poison: Poison) -> None:
        """Let the toxic of the same name go on as *poison*."""
        number = self._find(poison.name)
        stage, self._poisons[number] = self._stages[number], poison
        await stage.interrupt()
        if not stage.closed:
            stage.start(poison)

    async def remove(self, name: str) -> None:
        """Take the toxic *name* out of the chain; what it holds goes on."""
        number = self._find(name)
        stage, before, poison = self._stages[number], self._stages[number - 1], self._poisons[number]
        await stage.interrupt()
        if isinstance(poison.toxic, Timeout) and not stage.closed:
            stage.close()  # what was dropped is missing: the connection cannot go on
        if not stage.closed:
            await before.interrupt()
            while stage.inbox.chunks:
                stage.outbox.push(stage.inbox.chunks.popleft())
            if stage.inbox.closed:
                stage.close()
            else:
                before.outbox = stage.outbox
                before.start(self._poisons[number - 1])
        del self._stages[number], self._poisons[number]

    def _find(self, name: str) -> int:
        return next(n for n, poison in enumerate(self._poisons) if n and poison.name == name)

    def _append(self, poison: Poison) -> Stage:
        last = self._stages[-1]
        room = LATENCY_CHUNKS if isinstance(poison.toxic, Latency) else 1
        stage = Stage(Channel(room), last.outbox, self._seeded(poison.name))
        stage.closed = last.closed
        if not last.closed:
            last.outbox = stage.inbox
        self._stages.append(stage)
        self._poisons.append(poison)
        return stage

    def cancel(self) -> None:
        """Stop where it is."""
        self._reading.cancel()
        for stage in self._stages:
            stage.cancel()


HEAD = Poison("", "noop", "", 1.0, Noop())
"""The first of each chain."""
