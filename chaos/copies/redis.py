"""Copies of the keys of one run on a Redis server, as `DUMP` and `RESTORE` have them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chaos.durable import Lease

if TYPE_CHECKING:
    from redis import Redis

_COPY = """
local found = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
    found[#found + 1] = key
    found[#found + 1] = redis.call('DUMP', key)
end
return found
"""
"""In a script, for it runs at one moment. Nothing that a run stores expires."""


def take(lease: Lease, target: Path) -> None:
    """Copy all keys of *lease* into *target*, a file for each."""
    with _connected(lease) as client:
        found: list[bytes] = client.eval(_COPY, 0, f"{lease.space}*")
    for key, dump in zip(found[::2], found[1::2], strict=True):
        (target / key.hex()).write_bytes(dump)


def put_back(lease: Lease, source: Path) -> None:
    """Replace the keys of *lease* by those in *source*, in one transaction."""
    with _connected(lease) as client, client.pipeline(transaction=True) as commands:
        for key in client.scan_iter(match=f"{lease.space}*"):
            commands.delete(key)
        for file in sorted(source.iterdir()):
            commands.restore(bytes.fromhex(file.name), 0, file.read_bytes(), replace=True)
        commands.execute()


def _connected(lease: Lease) -> Redis:
    from redis import Redis

    return Redis.from_url(lease.url)
