"""The servers of one campaign in one process: started when a run first needs one, stopped at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count

from chaos import leftovers, registry
from chaos.durable import Lease
from chaos.servers import Running, Server

_numbers = count(1)


@dataclass(frozen=True)
class Leases:
    """What one run has on servers, and what that amounts to."""

    running: Mapping[str, Running] = field(default_factory=dict)
    parts: Mapping[str, Lease] = field(default_factory=dict)
    _told: dict[tuple[str, str], int] = field(default_factory=dict)

    def stored_bytes(self) -> int:
        """Return the bytes that all parts take up; of a server that is away: what it said last."""
        return sum(self._ask("stored", name, self.running[name].stored_bytes) for name in self.parts)

    def written_bytes(self) -> int:
        """Return the bytes that all servers have written for the run; of one that is away: what it said last."""
        return sum(self._ask("written", name, self.running[name].written_bytes) for name in self.parts)

    def await_back(self) -> None:
        """Return when no server is away: those that were killed come back by themselves."""
        for running in self.running.values():
            if running.service is not None:
                running.service.await_back()

    def _ask(self, what: str, name: str, measure: Callable[[Lease], int]) -> int:
        service = self.running[name].service
        if service is None or not service.away:
            self._told[what, name] = measure(self.parts[name])
        return self._told.get((what, name), 0)


class Pool:
    """Servers by name.

    Args:
        addresses: server to the address that the user gave for it; the others are started here.
    """

    def __init__(self, addresses: Mapping[str, str] | None = None) -> None:
        self._addresses = dict(addresses or {})
        self._running: dict[str, Running] = {}
        self._stack = ExitStack()

    def missing(self, name: str) -> str:
        """Return what this machine lacks for the server *name*, "" if nothing."""
        return "" if name in self._running else self._server(name).missing(self._addresses.get(name, ""))

    def foreign(self, name: str) -> str:
        """Return why the server *name* cannot be killed: it is somebody else's; "" if it is ours."""
        if name not in self._addresses:
            return ""
        return f"{name} is somebody's server, which is not killed: leave it out of --chaos-servers, to have one started"

    @contextmanager
    def leases(self, names: Sequence[str]) -> Iterator[Leases]:
        """Have a part of each of the servers *names* for the time of one run."""
        with ExitStack() as stack:
            parts = {}
            for name in names:
                running = self._open(name)
                parts[name] = running.lease(f"chaos_{os.getpid()}_{next(_numbers)}_{os.urandom(4).hex()}")
                stack.callback(running.release, parts[name])
            yield Leases({name: self._running[name] for name in names}, parts)

    def close(self) -> None:
        """Stop what was started. May be called twice."""
        self._running.clear()
        self._stack.close()

    def _open(self, name: str) -> Running:
        if name not in self._running:
            folder = leftovers.folder(f"{name}-")
            self._stack.callback(leftovers.remove, folder)
            self._running[name] = self._server(name).open(folder, self._addresses.get(name, ""))
            self._stack.callback(self._running[name].close)
        return self._running[name]

    def _server(self, name: str) -> Server:
        server: Server = registry.load("servers", name)()
        return server
