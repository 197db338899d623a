"""The proxies of the embedded server: each listens at one address and leads to another one through its toxics."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from itertools import count
from typing import Any

from chaos import seeds
from chaos.toxiproxy.pipeline import End, Flow, Poison
from chaos.toxiproxy.toxics import attributes

BACKLOG = 128
STREAMS = ("upstream", "downstream")


class Proxy:
    """One proxy. *seed* is of its toxics' randomness, which differs for each connection."""

    def __init__(self, name: str, listen: str, upstream: str, seed: int) -> None:
        self.name, self.listen, self.upstream, self._seed = name, listen, upstream, seed
        self.enabled = False
        self.poisons: list[Poison] = []
        self._numbers = count(1)
        self._pairs: dict[asyncio.Task[None], tuple[dict[str, Flow], tuple[End, End]]] = {}
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as the API shows it."""
        shown = {"name": self.name, "listen": self.listen, "upstream": self.upstream, "enabled": self.enabled}
        return {**shown, "toxics": [poison_json(poison) for poison in self.in_order()]}

    def in_order(self) -> list[Poison]:
        """Return the toxics as the API lists them: those of the upstream first."""
        return [poison for stream in STREAMS for poison in self.poisons if poison.stream == stream]

    def find(self, toxic: str) -> Poison | None:
        return next((poison for poison in self.poisons if poison.name == toxic), None)

    async def start(self) -> None:
        """Listen; raises OSError where that cannot be."""
        if self.enabled:
            return
        family, address = await resolved(self.listen)
        listener = socket.socket(family)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
            listener.setblocking(False)
        except OSError as error:
            listener.close()
            raise OSError(f"listen tcp {self.listen}: bind: {(error.strerror or str(error)).lower()}") from error
        self.listen = _shown(listener.getsockname())
        self.enabled, self._listener = True, listener
        self._accepting = asyncio.get_running_loop().create_task(self._accept(listener))

    async def stop(self) -> None:
        """Listen no more, and cut all connections."""
        if not self.enabled or self._accepting is None or self._listener is None:
            return
        self.enabled = False
        self._accepting.cancel()
        await asyncio.wait([self._accepting])
        self._listener.close()
        pairs = list(self._pairs)
        for pair in pairs:
            pair.cancel()
        if pairs:
            await asyncio.wait(pairs)

    async def _accept(self, listener: socket.socket) -> None:
        """Accept one client after the other, and dial the upstream for each before the next."""
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(listener)
            try:
                upstream = await self._dial()
            except OSError:
                client.close()
                continue
            except asyncio.CancelledError:
                client.close()
                raise
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ends = (End(client), End(upstream))
            flows = self._flows(*ends)
            task = loop.create_task(_run(flows, ends))
            self._pairs[task] = flows, ends
            task.add_done_callback(self._pairs.pop)

    def _flows(self, client: End, upstream: End) -> dict[str, Flow]:
        number = next(self._numbers)
        flows = {}
        for stream, ends in (("upstream", (client, upstream)), ("downstream", (upstream, client))):
            poisons = [poison for poison in self.poisons if poison.stream == stream]
            flows[stream] = Flow(*ends, poisons, lambda name, where=stream: seeds.rng(  # type: ignore[misc]
                self._seed, self.name, number, where, name))  # fmt: skip
        return flows

    async def _dial(self) -> socket.socket:
        loop = asyncio.get_running_loop()
        family, address = await resolved(self.upstream)
        upstream = socket.socket(family)
        upstream.setblocking(False)
        try:
            await loop.sock_connect(upstream, address)
        except BaseException:
            loop.remove_writer(upstream)
            upstream.close()
            raise
        upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as Go has it: no bytes wait for others
        return upstream

    async def add(self, poison: Poison) -> None:
        self.poisons.append(poison)
        for flow in self._touched(poison.stream):
            flow.add(poison)

    async def update(self, poison: Poison) -> None:
        """Put *poison* in the place of the toxic of the same name."""
        self.poisons = [poison if each.name == poison.name else each for each in self.poisons]
        for flow in self._touched(poison.stream):
            await flow.update(poison)

    async def remove(self, poison: Poison) -> None:
        self.poisons.remove(poison)
        await asyncio.gather(*(flow.remove(poison.name) for flow in self._touched(poison.stream)))

    def _touched(self, stream: str) -> Iterator[Flow]:
        return iter([flows[stream] for flows, _ in self._pairs.values()])


async def _run(flows: dict[str, Flow], ends: tuple[End, End]) -> None:
    """Pass everything on in both directions until both are closed."""
    try:
        await asyncio.gather(*(flow.run() for flow in flows.values()))
    finally:
        for end in ends:
            end.close()
        for flow in flows.values():
            flow.cancel()


def poison_json(poison: Poison) -> dict[str, Any]:
    """Return a toxic as the API shows it."""
    return {
        "attributes": attributes(poison.toxic),
        "name": poison.name,
        "type": poison.kind,
        "stream": poison.stream,
        "toxicity": poison.toxicity,
    }


async def resolved(address: str) -> tuple[socket.AddressFamily, Any]:
    """Return family and address of "HOST:PORT"; raises OSError for what is none."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise OSError(f"address {address}: write HOST:PORT")
    found = await asyncio.get_running_loop().getaddrinfo(
        host.strip("[]") or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    return found[0][0], found[0][4]


def _shown(name: Any) -> str:
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
