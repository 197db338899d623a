"""A stored delta is damaged between crash and resume: a flipped bit, a cut, a lost, doubled or misplaced record."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Literal, NamedTuple

from chaos.durable import Durable
from chaos.events.done import StoreDamaged
from chaos.events.seen import Exited
from chaos.faults import Plain, Scene, first, hit
from chaos.journal import AnyEvent
from chaos.results import Landed
from chaos.sandbox import Survival
from chaos.stores import Delta, Store, digest
from chaos.targets import Strategy


class _Done(NamedTuple):
    """What was changed where."""

    where: str
    before: int  # bytes
    after: int


@dataclass(frozen=True)
class CorruptDelta(Plain):
    """The agent is killed, and one record of its store is changed before it resumes.

    A correct agent notices (and says so, loudly), or comes out right all the same because a later snapshot covers
    the damage or a checksum sends it back to an older one. Going on with a wrong state is the worst answer.

    `which` is the record: one that a resume reads (`live`), one that a later snapshot covers (`covered`), the
    `latest` or the `first`. Where there is no such record the fault misses.

    `how`: a bit of it is flipped (`flip`), its second half is cut off (`truncate`), it is lost (`delete`) or there
    twice (`duplicate`); it has changed places with another such record, or with its neighbour where there is but one
    (`reorder`); or the link by which it names the record before it leads nowhere, or past that one, as chance has it
    (`swap_parent`; where records have such links).
    """

    dies: ClassVar[bool] = True

    how: Literal["flip", "truncate", "delete", "duplicate", "reorder", "swap_parent"] = "flip"
    which: Literal["live", "covered", "latest", "first"] = "live"

    @property
    def survival(self) -> Survival:
        return Survival.STORE

    def unsuited(self, store: Store | None, strategy: Strategy) -> str:
        if store is None:
            return "the strategy stores no deltas"
        if self.how == "swap_parent" and not store.linked:
            return "its records have no links to their parents: their order is that of their places or numbers"
        return ""

    def inject(self, scene: Scene) -> None:
        scene.end_by_kill()
        store, durable = scene.store, scene.durable
        if store is None:
            return
        # Of the crashed store: what is different now, nobody has healed yet.
        before = digest(store, durable)
        done = (self._relink if self.how == "swap_parent" else self._change)(store, durable, scene.rng)
        if done is not None:
            scene.journal.add(
                StoreDamaged,
                store=type(store).__name__,
                how=self.how,
                where=done.where,
                bytes_before=done.before,
                bytes_after=done.after,
                digest_before=before[1],
                digest_after=digest(store, durable)[1],
            )

    def _change(self, store: Store, durable: Durable, rng: Random) -> _Done | None:
        deltas = store.deltas(durable)
        if not (wanted := self._wanted(deltas)):
            return None
        delta = rng.choice(wanted)
        where, data = f"delta {delta.order + 1} of {len(deltas)}", store.read(durable, delta)
        if self.how == "reorder":
            beside = {"latest": deltas[-2:-1], "first": deltas[1:2]}.get(self.which, wanted)
            others = [other for other in beside if store.read(durable, other) != data]
            if not others:
                return None
            other = rng.choice(others)
            store.swap(durable, delta, other)
            where = f"deltas {delta.order + 1} and {other.order + 1} of {len(deltas)}"
        elif self.how == "delete":
            store.delete(durable, delta)
        elif self.how == "duplicate":
            store.duplicate(durable, delta)
        elif self.how == "truncate":
            store.write(durable, delta, data[: len(data) // 2])
        elif data:  # an empty record has no bit to flip: nothing changes, and the fault misses
            place, bit = rng.randrange(len(data)), rng.randrange(8)
            flipped = data[place] ^ (1 << bit)
            store.write(durable, delta, data[:place] + bytes([flipped]) + data[place + 1 :])
        return _Done(where, delta.size, len(store.read(durable, delta)) if self.how != "delete" else 0)

    def _relink(self, store: Store, durable: Durable, rng: Random) -> _Done | None:
        links = store.links(durable)
        if not (wanted := self._wanted(links)):
            return None
        link = rng.choice(wanted)
        leads = "nowhere"
        parent = ""
        if link.order > 0 and rng.randrange(2):
            leads, parent = "past its parent", store.parent(durable, links[link.order - 1])
        store.relink(durable, link, parent)
        return _Done(f"link {link.order + 1} of {len(links)}, which leads {leads}", link.size, len(parent))

    def _wanted(self, records: Sequence[Delta]) -> list[Delta]:
        return {
            "live": [one for one in records if one.live],
            "covered": [one for one in records if not one.live],
            "latest": list(records[-1:]),
            "first": list(records[:1]),
        }[self.which]

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
