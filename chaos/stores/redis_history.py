"""A history on a Redis server: a list whose entries are the deltas, or one value whose lines are; all are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from chaos.durable import Durable
from chaos.stores import Delta, Plain, Tail

if TYPE_CHECKING:
    from redis import Redis

_BREAK = b"\r\n"
KEYS = "history:*"
"""What follows the lease's prefix in the key of a thread's history; a run has one thread."""


@dataclass(frozen=True)
class RedisHistory(Plain):
    """The entries of the list, or the lines of the value without their line breaks."""

    whole: ClassVar[str] = ""

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

    def tail(self, durable: Durable) -> Tail | None:
        # The log of the server: it must be down while it is cut.
        from redis import Redis

        with Redis.from_url(durable.leases["redis"].url) as client:
            settings = client.config_get("dir", "appenddirname", "appendfilename")
        folder = Path(settings["dir"], settings["appenddirname"])
        parts = sorted(folder.glob(f"{settings['appendfilename']}.*.incr.aof"), key=lambda part: part.stat().st_mtime)
        return Tail(parts[-1], *_last_command(parts[-1].read_bytes())) if parts else None


def _last_command(log: bytes) -> tuple[int, int]:
    """Return where the last command in *log* begins and ends: *3, then $6 and six bytes, and so on (RESP)."""
    begin = end = 0
    while end < len(log):
        begin = end
        count, end = _number(log, end)
        for _ in range(count):
            size, end = _number(log, end)
            end += size + len(_BREAK)
    return begin, end


def _number(log: bytes, begin: int) -> tuple[int, int]:
    """Return the number behind the mark at *begin*, and where its line ends."""
    end = log.index(_BREAK, begin)
    return int(log[begin + 1 : end]), end + len(_BREAK)


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
