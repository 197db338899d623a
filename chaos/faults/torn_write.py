"""The last write to the store is only half there, as after a crash in the middle of it."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import HarnessError
from chaos.events.done import ServerBack, ServerKilled, StoreDamaged
from chaos.events.seen import Exited
from chaos.faults import Plain, Scene, first, hit
from chaos.journal import AnyEvent
from chaos.outfit import Outfit
from chaos.results import Landed
from chaos.sandbox import Survival
from chaos.servers._daemon import Service
from chaos.stores import Store
from chaos.targets import Strategy


@dataclass(frozen=True)
class TornWrite(Plain):
    """The agent is killed, and the last write of its store ends somewhere in its middle.

    A correct agent leaves the torn part out and does again what it held. At `during_commit` that is a power cut before
    the sync; at a later point it is a disk that had said too early that it was done, and what the agent had taken for
    durable is gone: it must then go back by that write, or refuse, and never read the half for a whole.

    A line of a log is cut after any of its bytes. SQLite's write-ahead log is cut at the edge of a sector inside its
    last commit: SQLite leaves a commit out that is not whole, so that the store is whole again, one commit older.
    Redis' append-only file is cut inside the last command while the server, which must be ours, is killed; it starts
    again without that command (`aof-load-truncated`, on by default).
    """

    outfit = Outfit(own_servers=True)

    @property
    def survival(self) -> Survival:
        return Survival.STORE

    def unsuited(self, store: Store | None, strategy: Strategy) -> str:
        return store.whole if store else "the strategy stores nothing"

    def inject(self, scene: Scene) -> None:
        scene.end_by_kill()
        if scene.store is None or (tail := scene.store.tail(scene.durable)) is None:
            return
        inside = [offset for offset in range(0, tail.end, tail.unit) if offset > tail.begin]
        if not inside:  # of a single unit there is no half
            return
        services = [_service(scene, name) for name in sorted(scene.durable.leases)]
        for name, service in services:
            pid, status = service.kill()
            scene.journal.add(ServerKilled, server=name, pid=pid, status=status)
        before, size, offset = _digest(tail.path), tail.path.stat().st_size, scene.rng.choice(inside)
        with tail.path.open("r+b") as file:
            file.truncate(offset)
        scene.journal.add(
            StoreDamaged,
            store=type(scene.store).__name__,
            how="tear",
            where=f"byte {offset} of {tail.path.name}, in the write from {tail.begin} to {tail.end}",
            bytes_before=size,
            bytes_after=tail.path.stat().st_size,
            digest_before=before,
            digest_after=_digest(tail.path),
        )
        for name, service in services:
            pid, seconds = service.restart()
            scene.journal.add(ServerBack, server=name, pid=pid, recovery_seconds=round(seconds, 3))

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        torn, exited = first(after, StoreDamaged), first(after, Exited)
        if torn is None or exited is None or exited.status != -signal.SIGKILL:
            return None
        if torn.digest_before == torn.digest_after:
            return None
        return hit(
            "torn_write",
            at,
            "killed, the last write torn",
            status=exited.status,
            where=torn.where,
            bytes_before=torn.bytes_before,
            bytes_after=torn.bytes_after,
            digest=f"{torn.digest_before} -> {torn.digest_after}",
        )


def _service(scene: Scene, name: str) -> tuple[str, Service]:
    service = scene.servers[name].service
    if service is None:
        raise HarnessError(f"{name} is somebody's server, which we do not kill")
    return name, service


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
