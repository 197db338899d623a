"""A history on a Redis server: a list whose entries are the deltas, or one value whose lines are; all are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from chaos.durable import Durable
from chaos.stores import Delta

if TYPE_CHECKING:
    from redis import Redis

KEYS = "history:*"
"""What follows the lease's prefix in the key of a thread's history; a run has one thread."""


@dataclass(frozen=True)
class RedisHistory:
    """The entries of the list, or the lines of the value without their line breaks."""

    def deltas(self, durable: Durable) -> tuple[Delta, ...]:
        with _opened(durable) as found:
            return tuple(Delta(order, order, len(entry), True) for order, entry in enumerate(found.entries))

    def read(self, durable: Durable, delta: Delta) -> bytes:
        with _opened(durable) as found:
            return found.entries[delta.row] if delta.row < len(found.entries) else b""

    def write(self, durable: Durable, delta: Delta, data: bytes) -> None:
        with _opened(durable) as found:
            found.entries[delta.row] = data
            found.store()

    def delete(self, durable: Durable, delta: Delta) -> None:
        with _opened(durable) as found:
            del found.entries[delta.row]
            found.store()

    def duplicate(self, durable: Durable, delta: Delta) -> None:
        with _opened(durable) as found:
            found.entries.insert(delta.row, found.entries[delta.row])
            found.store()


class _Found(NamedTuple):
    """What is under *key*, in the form that it has there; key and entries are empty if there is nothing yet."""

    client: Redis
    key: bytes
    is_list: bool
    entries: list[bytes]

    def store(self) -> None:
        """Put the entries in the place of what is there, in one transaction."""
        with self.client.pipeline(transaction=True) as commands:
            commands.delete(self.key)
            if not self.is_list:
                commands.set(self.key, b"".join(entry + b"\n" for entry in self.entries))
            elif self.entries:  # a list without entries is no list
                commands.rpush(self.key, *self.entries)
            commands.execute()


@contextmanager
def _opened(durable: Durable) -> Iterator[_Found]:
    from redis import Redis

    lease = durable.leases["redis"]
    with Redis.from_url(lease.url) as client:
        key = next(client.scan_iter(match=f"{lease.space}{KEYS}"), b"")
        is_list = client.type(key) == b"list"
        value = [] if is_list else bytes(client.get(key) or b"").split(b"\n")[:-1]
        yield _Found(client, key, is_list, client.lrange(key, 0, -1) if is_list else value)
