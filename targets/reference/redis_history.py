"""The history on a Redis server, under one key for each thread: a list of entries, or one value with all of them.

There is no moment between written and durable that the agent could see: a command is sent, and when it is answered it
is in the server's log.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, cast

from chaos.durable import Lease

if TYPE_CHECKING:
    from redis import Redis

KEY = "history:"


class Entries:
    """A list to which one entry is appended for each step (RPUSH).

    Args:
        lease: the part of the server.
        thread: whose history it is.
    """

    def __init__(self, lease: Lease, thread: str) -> None:
        self._client, self._key = _client(lease), f"{lease.space}{KEY}{thread}"

    def append(self, line: bytes, between: Callable[[], None] | None = None) -> None:
        """Append *line*; *between* runs right before, and what it returns to is durable."""
        if between is not None:
            between()
        self._client.rpush(self._key, line)


class Whole:
    """One value with a line for each step, written as a whole each time (SET); see `Entries` for the arguments."""

    def __init__(self, lease: Lease, thread: str) -> None:
        self._client, self._key = _client(lease), f"{lease.space}{KEY}{thread}"
        self._value = b"".join(line + b"\n" for line in lines(lease))

    def append(self, line: bytes, between: Callable[[], None] | None = None) -> None:
        """Append *line*; *between* runs right before the command."""
        self._value += line + b"\n"
        if between is not None:
            between()
        self._client.set(self._key, self._value)


def lines(lease: Lease) -> list[bytes]:
    """Return the entries of the one thread in *lease*, in either form, oldest first."""
    with closing(_client(lease)) as client:
        for key in client.scan_iter(match=f"{lease.space}{KEY}*"):
            if client.type(key) == b"list":
                return cast("list[bytes]", client.lrange(key, 0, -1))
            return cast(bytes, client.get(key)).split(b"\n")[:-1]
    return []


def _client(lease: Lease) -> Redis:
    """Return a client that sends a command once: an RPUSH whose answer got lost must not be done again."""
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return Redis.from_url(lease.url, retry=Retry(NoBackoff(), 0))
