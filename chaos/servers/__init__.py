"""Servers that strategies keep their state on: one module each, its name is the name that a strategy asks for.

A server is started when a binary is at hand, in a temporary folder, on a free port of 127.0.0.1, and stopped with the
campaign; or it is somebody else's, at an address, where every run gets a part of its own that is removed afterwards.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from chaos.durable import Lease

if TYPE_CHECKING:
    from chaos.servers._daemon import Service


class Kept(Protocol):
    """What a lease had on a server at one instant. What servers keep of instants that follow each other is shared."""

    @property
    def digest(self) -> str:
        """Tells it from others of the same lease: equal digests, equal contents."""
        ...


class Running(Protocol):
    """A server that answers. Its user is one process; the leases of several runs may be open at once."""

    def lease(self, name: str) -> Lease:
        """Return a new and empty part for the run *name* (letters, digits and "_", unique on this server)."""
        ...

    def stored_bytes(self, lease: Lease) -> int:
        """Return the bytes that *lease* takes up on the server's disk now, what is not yet written back included."""
        ...

    def written_bytes(self, lease: Lease) -> int:
        """Return the bytes that the server has written to its disk since *lease* was made, its log included."""
        ...

    def keep(self, lease: Lease) -> Kept | None:
        """Return what *lease* has on the server now, as a kill of its client would leave it; None if that cannot be.

        The client stands still; connections and transactions of it may be open, and what is not committed is not in it.
        """
        ...

    def put_back(self, lease: Lease, kept: Kept) -> None:
        """Make *lease* have what it had when *kept* was, and count its bytes from there; its client is dead.

        Connections that the client left are gone when this returns.
        """
        ...

    def release(self, lease: Lease) -> None:
        """Remove the part and all that is in it; connections that a killed agent left open are cut."""
        ...

    @property
    def service(self) -> Service | None:
        """The server's process, which can be killed and started again; None if it is somebody else's.

        While it is away, nothing else may be asked of it.
        """
        ...

    def close(self) -> None:
        """Stop the server if it was started here, and remove its folder. May be called twice."""
        ...


class Server(Protocol):
    """A frozen dataclass without fields: how to have a server."""

    def missing(self, address: str) -> str:
        """Return what this machine lacks for the server, and the remedy; "" if nothing.

        Args:
            address: where the user says that there is one; "" to start one here.
        """
        ...

    def open(self, folder: Path, address: str) -> Running:
        """Start the server in *folder*, an empty one of its own, or connect to the one at *address*.

        Raises:
            HarnessError: it does not start or does not answer; nothing is left behind.
        """
        ...
