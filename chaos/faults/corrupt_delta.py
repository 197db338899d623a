"""A stored delta is damaged between crash and resume: a flipped bit, a cut, a lost or doubled record."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from chaos.durable import Durable
from chaos.faults import Plain, Scene, first, hit
from chaos.journal import AnyEvent, Exited, StoreDamaged
from chaos.results import Landed
from chaos.sandbox import Survival
from chaos.stores import Delta, Store
from chaos.targets import Strategy


@dataclass(frozen=True)
class CorruptDelta(Plain):
    """The agent is killed, and one record of its store is changed before it resumes.

    A correct agent notices (and says so, loudly), or comes out right all the same because a later snapshot covers
    the damage or a checksum sends it back to an older one. Going on with a wrong state is the worst answer.

    `which` is the record: one that a resume reads (`live`), one that a later snapshot covers (`covered`), the
    `latest` or the `first`. Where there is no such record the fault misses.
    """

    how: Literal["flip", "truncate", "delete", "duplicate"] = "flip"
    which: Literal["live", "covered", "latest", "first"] = "live"

    @property
    def survival(self) -> Survival:
        return Survival.STORE

    def unsuited(self, store: Store | None, strategy: Strategy) -> str:
        return "" if store else "the strategy stores no deltas"

    def inject(self, scene: Scene) -> None:
        scene.end_by_kill()
        durable = scene.durable
        if scene.store is None or (delta := self._choose(scene.store.deltas(durable), scene.rng)) is None:
            return
        before = _digest(scene.store, durable)
        data = scene.store.read(durable, delta)
        self._damage(scene.store, durable, delta, data, scene.rng)
        scene.journal.add(
            StoreDamaged,
            store=type(scene.store).__name__,
            how=self.how,
            where=f"delta {delta.order + 1} of {before[0]}",
            bytes_before=delta.size,
            bytes_after=len(scene.store.read(durable, delta)) if self.how != "delete" else 0,
            digest_before=before[1],
            digest_after=_digest(scene.store, durable)[1],
        )

    def _choose(self, deltas: Sequence[Delta], rng: Random) -> Delta | None:
        wanted = {
            "live": [delta for delta in deltas if delta.live],
            "covered": [delta for delta in deltas if not delta.live],
            "latest": list(deltas[-1:]),
            "first": list(deltas[:1]),
        }[self.which]
        return rng.choice(wanted) if wanted else None

    def _damage(self, store: Store, durable: Durable, delta: Delta, data: bytes, rng: Random) -> None:
        if self.how == "delete":
            store.delete(durable, delta)
        elif self.how == "duplicate":
            store.duplicate(durable, delta)
        elif self.how == "truncate":
            store.write(durable, delta, data[: len(data) // 2])
        elif data:  # an empty record has no bit to flip: nothing changes, and the fault misses
            place, bit = rng.randrange(len(data)), rng.randrange(8)
            flipped = data[place] ^ (1 << bit)
            store.write(durable, delta, data[:place] + bytes([flipped]) + data[place + 1 :])

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        damaged, exited = first(after, StoreDamaged), first(after, Exited)
        if damaged is None or exited is None or exited.status != -signal.SIGKILL:
            return None
        if damaged.digest_before == damaged.digest_after:
            return None
        return hit(
            "corrupt_delta",
            at,
            f"killed, {damaged.how} in the store",
            status=exited.status,
            where=damaged.where,
            bytes_before=damaged.bytes_before,
            bytes_after=damaged.bytes_after,
            digest=f"{damaged.digest_before} -> {damaged.digest_after}",
        )


def _digest(store: Store, durable: Durable) -> tuple[int, str]:
    """Return the number of deltas and a digest over all their bytes, read back from the store."""
    deltas = store.deltas(durable)
    digest = hashlib.blake2b(digest_size=8)
    for delta in deltas:
        data = store.read(durable, delta)
        digest.update(len(data).to_bytes(8, "big") + data)
    return len(deltas), digest.hexdigest()
