"""What a run must be fitted out with before its agent starts, so that a fault can hit it later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Outfit:
    """What one fault needs; the outfits of all faults of a plan are put together.

    The reference run has none of it: the agent must not be able to tell.

    Args:
        disk: file system ("ext4", "xfs") of an image of its own that all zones are on; "" for the machine's disk.
        disk_bytes: size of that image; 0 for the default.
        links: connections that go through a proxy: "model", "services", and servers by their names.
        clock: the agent's wall clock can be moved.
        releases: other releases that the target can be launched as.
        own_servers: the servers that the strategy uses are ours, so that they can be killed.
        syscalls: system calls on the durable zone (`plan.SYSCALLS`) that can be made to fail.
        copies: how many commits back there must be copies of all that is durable.
    """

    disk: str = ""
    disk_bytes: int = 0
    links: frozenset[str] = frozenset()
    clock: bool = False
    releases: frozenset[str] = frozenset()
    own_servers: bool = False
    syscalls: frozenset[str] = frozenset()
    copies: int = 0


def together(outfits: Iterable[Outfit]) -> Outfit:
    """Return what fits all of *outfits*: the first file system that is named, the smallest size that is."""
    all_ = tuple(outfits)
    sizes = [one.disk_bytes for one in all_ if one.disk_bytes]
    return Outfit(
        disk=next((one.disk for one in all_ if one.disk), ""),
        disk_bytes=min(sizes, default=0),
        links=frozenset(link for one in all_ for link in one.links),
        clock=any(one.clock for one in all_),
        releases=frozenset(name for one in all_ for name in one.releases),
        own_servers=any(one.own_servers for one in all_),
        syscalls=frozenset(call for one in all_ for call in one.syscalls),
        copies=max((one.copies for one in all_), default=0),
    )
