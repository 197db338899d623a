"""Redis: a prefix of keys for each run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chaos import leftovers, ports
from chaos.durable import Lease
from chaos.errors import HarnessError
from chaos.servers import _redis_kept as keys
from chaos.servers._address import shown
from chaos.servers._daemon import Daemon, Service

if TYPE_CHECKING:
    from redis import Redis as Client

    from chaos.servers import Kept

CONNECT_SECONDS = 5
SCAN_KEYS = 1000  # looked at by one SCAN: a user's server may hold millions
# Every command is in the log, and the log on the disk, before it is answered. No snapshots beside it.
SETTINGS = (
    "--appendonly",
    "yes",
    "--appendfsync",
    "always",
    "--save",
    "",
    "--daemonize",
    "no",
    "--loglevel",
    "warning",
)
# What a key would take in a log that was just rewritten. DUMP (https://redis.io/docs/latest/commands/dump/) has the
# bytes of that file for it, and 10 more: a version and a checksum. The key itself stands before them with its
# length, in one byte up to 63 and in two from there.
STORED = """
local key = KEYS[1]
local dump = redis.call('DUMP', key)
return dump and #dump - 10 + #key + (#key < 64 and 1 or 2) or 0
"""


@dataclass(frozen=True)
class Redis:
    """A temporary server that logs every command durably, or somebody's at redis://[USER:PASSWORD@]HOST:PORT/NUMBER."""

    def missing(self, address: str) -> str:
        try:
            import redis  # noqa: F401
        except ImportError as error:
            return f"no Redis client ({error}): pip install 'pytest-chaos[strategies]'"
        if not address and not shutil.which("redis-server"):
            return (
                "no Redis server: apt-get install redis-server, or name one by"
                " --chaos-servers redis=redis://HOST:PORT/0"
            )
        return ""

    def open(self, folder: Path, address: str) -> RunningRedis:
        if address:
            url = address if "://" in address else f"redis://{address}"
            if refusal := _refusal(url):
                raise HarnessError(
                    f"Redis at {shown(address)} does not let us in ({refusal}); give the address of a running"
                    " server, as in --chaos-servers redis=redis://USER:PASSWORD@HOST:PORT/0"
                )
            return RunningRedis(url, None, ExitStack())
        if missing := self.missing(address):
            raise HarnessError(missing)
        with ExitStack() as stack:
            stack.callback(leftovers.remove, folder)
            port = stack.enter_context(ports.claimed(("redis",)))[0][1]
            url = f"redis://127.0.0.1:{port}/0"
            place = ("--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder))
            command = (shutil.which("redis-server") or "redis-server", *place, *SETTINGS)
            service = Service(lambda: _start(command, folder, url))
            stack.callback(service.stop)
            return RunningRedis(url, service, stack.pop_all())


class RunningRedis:
    """A server that answers at *url*, *service* if it is our own; *stack* undoes what was begun for it."""

    def __init__(self, url: str, service: Service | None, stack: ExitStack) -> None:
        self._url, self.service, self._stack = url, service, stack
        self._written: dict[str, int] = {}
        self._kept: dict[str, keys.KeptKeys] = {}  # what was kept last, by space

    def lease(self, name: str) -> Lease:
        lease = Lease(self._url, f"{name}:")
        self._written[lease.space] = self._written_bytes()
        return lease

    def stored_bytes(self, lease: Lease) -> int:
        """Return what the lease's keys take up in an append-only file that was just rewritten, compression included.

        The file that is there at this moment is bigger: it has all that was written since it was rewritten last (which
        is a matter of `auto-aof-rewrite-percentage` and of the server's other users), and that is in `written_bytes`.
        """
        with self._connected() as client:
            return sum(int(client.eval(STORED, 1, key)) for key in _keys(client, lease.space))

    def written_bytes(self, lease: Lease) -> int:
        """Return the bytes written since the lease was made, by everybody who uses the server.

        Of a server of our own these are whole pages on the disk: the log's, and those of the processes that rewrote
        it. Of somebody else's it is what its clients sent, as far as it logs that (`appendonly`); how often it rewrites
        the log, and what it saves besides, is not known.
        """
        return self._written_bytes() - self._written[lease.space]

    def keep(self, lease: Lease) -> Kept:
        """Return the lease's keys. One that expires is put back with the time that it has left now."""
        with self._connected() as client:
            last = self._kept.get(lease.space) or keys.KeptKeys()
            kept = keys.keep(client, _keys(client, lease.space), last, self.written_bytes(lease))
        self._kept[lease.space] = kept
        return kept

    def put_back(self, lease: Lease, kept: Kept) -> None:
        assert isinstance(kept, keys.KeptKeys)
        with self._connected() as client:
            keys.settle(client)
            keys.put_back(client, _keys(client, lease.space), kept)
        self._kept[lease.space] = kept
        self._written[lease.space] = self._written_bytes() - kept.written

    def release(self, lease: Lease) -> None:
        self._kept.pop(lease.space, None)
        with self._connected() as client:
            if keys := _keys(client, lease.space):
                client.unlink(*keys)
        self._written.pop(lease.space, None)

    def close(self) -> None:
        self._stack.close()

    def _written_bytes(self) -> int:
        if self.service is not None:
            return self.service.written_bytes()
        with self._connected() as client:
            info = client.info()
        return int(info["total_net_input_bytes"]) if info.get("aof_enabled") else 0

    @contextmanager
    def _connected(self) -> Iterator[Client]:
        """Have a client for one call."""
        import redis

        try:
            with redis.Redis.from_url(self._url, socket_connect_timeout=CONNECT_SECONDS) as client:
                yield client
        except redis.RedisError as error:
            raise HarnessError(f"Redis does not do its part: {error}") from error


def _start(command: Sequence[str], folder: Path, url: str) -> Daemon:
    """Start the server that *command* says; return when it answers, its log read."""
    daemon = Daemon(command, folder)
    try:
        daemon.await_ready(lambda: not _refusal(url))
    except BaseException:
        daemon.stop()
        raise
    return daemon


def _keys(client: Client, prefix: str) -> list[bytes]:
    """Return the keys that begin with *prefix*, which has no special characters; SCAN may come upon one twice."""
    return sorted(set(client.scan_iter(match=f"{prefix}*", count=SCAN_KEYS)))


def _refusal(url: str) -> str:
    """Return why nobody can use the server at *url*, "" if it works."""
    import redis

    try:
        with redis.Redis.from_url(url, socket_connect_timeout=CONNECT_SECONDS) as client:
            client.ping()
    except (redis.RedisError, ValueError) as error:
        return str(error)
    return ""
