"""One link: a proxy between two taps, and the bouts in which it is bad."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.errors import HarnessError
from chaos.events.done import Healed, LinkHit, Poisoned
from chaos.journal import Journal
from chaos.toxiproxy.bout import KILLED, Bout, Hit, Passage
from chaos.toxiproxy.servers import Driven
from chaos.toxiproxy.tap import HOST, Loop, Tap

SHUTTING = ("down", KILLED)
"""Bouts in which whoever connects is refused, once it has been seen that there is somebody."""


@dataclass
class Outage:
    """A bout that lasts: ended by its own thread, or by `end`, whichever is first."""

    bout: Bout
    connections: int  # hit, after which it is over; 0: only the time ends it
    over: threading.Event = field(default_factory=threading.Event)  # it is to end now
    thread: threading.Thread | None = None
    failure: Exception | None = None

    def end(self) -> None:
        """End it, if it has not ended; raises what went wrong with that. May be called twice."""
        self.over.set()
        if self.thread is not None and self.thread.ident is not None:
            self.thread.join()
        if self.failure is not None:
            raise HarnessError(f"a link could not be made good again: {self.failure}") from self.failure


class _Watch:
    """What one tap saw of one passage; *enters* is the stream that enters the proxy there."""

    def __init__(self, link: Link, passage: Passage, enters: str, names: Mapping[str, str]) -> None:
        self.link, self.passage, self.enters, self.names = link, passage, enters, names

    def passed(self, stream: str, size: int) -> None:
        self.link.passed(self.passage, stream, size, enters=stream == self.enters)

    def ended(self, side: str, how: str) -> None:
        self.link.ended(self.passage, self.names[side], how)


FRONT = {"client": "agent", "server": "to agent"}
BACK = {"client": "to world", "server": "world"}
"""Who ends a connection, by the side of the tap that sees it."""


class Link:
    """One link: two taps and the proxy *proxy* between them. What the taps tell is handled in their loop's thread.

    Args:
        name: what is behind it.
        destination: HOST and PORT of that.
    """

    def __init__(
        self, name: str, proxy: str, driven: Driven, loop: Loop, destination: tuple[str, int], journal: Journal
    ) -> None:
        self.name, self.destination = name, destination
        self._proxy, self._driven, self._loop, self._journal = proxy, driven, loop, journal
        self._outages: list[Outage] = []
        self._numbers, self._bouts, self._shut = 0, 0, 0
        self._dialed: list[Passage] = []  # not yet seen at the back: a proxy dials in the order of its clients
        self._open: set[Passage] = set()
        self._go = asyncio.Event()  # cleared while a bout is over and its toxic still there
        self._go.set()
        self._lock = threading.Lock()
        self.back = Tap(destination, self._at_back)
        loop.call(self.back.open())
        listen = driven.client.create(proxy, f"{HOST}:{self.back.port}", f"{HOST}:0")
        host, _, port = listen.rpartition(":")
        self.front = Tap((host, int(port)), self._at_front, self._dialing)
        loop.call(self.front.open())

    def poison(
        self, kind: str, stream: str, attributes: Mapping[str, int], seconds: float, connections: int = 0
    ) -> Outage:
        """Make the link bad by the toxic *kind*, or "down", for *seconds* or until so many *connections* are hit."""
        client, proxy = self._driven.client, self._proxy

        def begin(bout: Bout) -> None:
            if kind == "down":
                client.disable(proxy)
            else:
                client.add_toxic(proxy, f"{kind}-{bout.number}", kind, stream, attributes)

        def end(bout: Bout) -> None:
            if kind != "down":
                client.remove_toxic(proxy, f"{kind}-{bout.number}")
            elif sum(each.bout.kind == "down" for each in self._outages) == 1:  # no other that keeps it down
                client.enable(proxy)

        return self._bad(kind, stream, attributes, begin, end, seconds, connections)

    def kill(self, kill: Callable[[], None], restart: Callable[[], None], seconds: float) -> Outage:
        """*kill* what is behind the link, and *restart* it after so many *seconds*."""
        return self._bad(KILLED, "", {}, lambda _: kill(), lambda _: restart(), seconds, 0)

    def close(self) -> None:
        """Undo everything. May be called twice."""
        for outage in list(self._outages):
            outage.end()
        self._loop.call(self.front.close())
        self._loop.call(self.back.close())
        if self._proxy in self._driven.client.names():
            self._driven.client.delete(self._proxy)

    def _bad(
        self, kind: str, stream: str, attributes: Mapping[str, int], begin: Callable[[Bout], None],
        end: Callable[[Bout], None], seconds: float, connections: int,
    ) -> Outage:  # fmt: skip
        self._bouts += 1
        bout = Bout(self._bouts, kind, stream, attributes, self._loop.loop.time())
        outage = Outage(bout, connections)
        self._journal.add(
            Poisoned, link=self.name, number=bout.number, toxic=kind, stream=stream, attributes=dict(attributes),
            server=self._driven.name,
        )  # fmt: skip
        self._loop.call(self._register(outage))
        outage.thread = threading.Thread(target=self._last, args=(outage, end, seconds), name="outage", daemon=True)
        try:
            begin(bout)
        except BaseException:
            outage.over.set()
            raise
        finally:
            outage.thread.start()
        if kind in SHUTTING:
            self._loop.call(self._begun(outage))
        return outage

    def _last(self, outage: Outage, end: Callable[[Bout], None], seconds: float) -> None:
        """Wait until the outage is over, and make the link good again."""
        outage.over.wait(seconds)
        with self._lock:  # of two that keep it down, the second one to end must see that it is the last
            try:
                end(outage.bout)
            except Exception as error:
                outage.failure = error
            try:
                self._loop.call(self._unregister(outage))
            except Exception as error:
                outage.failure = outage.failure or error
        took = self._loop.loop.time() - outage.bout.since
        hits = len(outage.bout.hits)
        self._journal.add(Healed, link=self.name, number=outage.bout.number, hits=hits, seconds=round(took, 3))

    async def _register(self, outage: Outage) -> None:
        self._outages.append(outage)
        if outage.bout.kind in SHUTTING:
            self._shut += 1

    async def _begun(self, outage: Outage) -> None:
        """The proxy or the server is away. Who has no connection must come once, to be seen; then all are refused."""
        self._dialed.clear()  # a proxy that is down forgets those that it has not dialed for
        if outage.bout.hits or self._open:
            await self.front.shut()

    async def _unregister(self, outage: Outage) -> None:
        self._outages.remove(outage)
        if outage.bout.kind in SHUTTING:
            self._shut -= 1
        if not self._shut:
            await self.front.open()
        if not any(each.over.is_set() for each in self._outages):
            self._go.set()

    async def _dialing(self, watcher: Any) -> None:
        """A client is about to be passed on to the proxy."""
        await self._go.wait()
        self._dialed.append(watcher.passage)

    def _at_front(self) -> _Watch:
        self._numbers += 1
        return _Watch(self, Passage(self._numbers), "upstream", FRONT)

    def _at_back(self) -> _Watch:
        passage = self._dialed.pop(0) if self._dialed else Passage(0)
        self._open.add(passage)
        return _Watch(self, passage, "downstream", BACK)

    def passed(self, passage: Passage, stream: str, size: int, *, enters: bool) -> None:
        """The taps saw bytes."""
        now = self._loop.loop.time()
        if enters:
            passage.enters(stream, size, now)
            return
        for outage in list(self._outages):
            if hit := passage.leaves(stream, size, now, outage.bout):
                self._hit(outage, passage, hit)
        passage.left_behind(stream, size)

    def ended(self, passage: Passage, who: str, how: str) -> None:
        """The taps saw an end."""
        now = self._loop.loop.time()
        if how == "refused" and passage in self._dialed:
            self._dialed.remove(passage)
        for outage in list(self._outages):
            if hit := passage.ends(who, how, now, outage.bout):
                self._hit(outage, passage, hit)
        passage.ended.setdefault(who, now)
        self._open.discard(passage)

    def _hit(self, outage: Outage, passage: Passage, hit: Hit) -> None:
        """Note the first hit of a connection; after the last that is wanted nobody new is let in until it is over."""
        bout = outage.bout
        if passage.number in bout.hits or outage.over.is_set():
            return
        bout.hits[passage.number] = hit
        self._journal.add(
            LinkHit, link=self.name, number=bout.number, connection=passage.number, how=hit.how, bytes=hit.bytes,
            seconds=round(hit.seconds, 4),
        )  # fmt: skip
        if bout.kind in SHUTTING:
            asyncio.get_running_loop().create_task(self.front.shut())
        if outage.connections and len(bout.hits) >= outage.connections:
            self._go.clear()
            outage.over.set()
