"""The store is an earlier state of itself, as a restored backup or a replica that had fallen behind."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.copies import SERVERS
from chaos.errors import HarnessError, ScenarioError
from chaos.events.done import StoreRolledBack
from chaos.events.seen import Exited
from chaos.faults import Plain, Scene, first, hit
from chaos.journal import AnyEvent
from chaos.outfit import Outfit
from chaos.results import Landed
from chaos.sandbox import Survival
from chaos.stores import Store, digest
from chaos.targets import Strategy


@dataclass(frozen=True)
class StaleStore(Plain):
    """The agent is killed, and all that is durable goes back to what it was `behind` commits ago: files and servers.

    A correct agent cannot know, and does again what was lost: the prompts are the same again, and effects that have
    an idempotency key happen once all the same. Its files, which no volume lost, are then ahead of it by more than
    the step in flight.

    A copy is taken after each commit, while the agent stands still, and put back when it is dead. Of a database in
    PostgreSQL all rows are copied, of Redis the run's keys, of SQLite what a transaction sees.
    """

    behind: int = 2

    def __post_init__(self) -> None:
        if self.behind < 1:
            raise ScenarioError(f"behind must be at least 1 commit (got {self.behind})")

    @property
    def survival(self) -> Survival:
        return Survival.STORE

    @property
    def outfit(self) -> Outfit:  # type: ignore[override]
        return Outfit(copies=self.behind)

    def unsuited(self, store: Store | None, strategy: Strategy) -> str:
        if store is None:
            return "the strategy stores nothing that could be stale"
        held = [name for name in strategy.needs if name not in SERVERS]
        return f"{held[0]} has what it stores in its memory too: its disk cannot go back under it" if held else ""

    def inject(self, scene: Scene) -> None:
        if scene.copies is None:
            raise HarnessError("the run was started without copies (Outfit.copies)")
        scene.end_by_kill()
        store, durable = scene.store, scene.durable
        if store is None:
            return
        before = digest(store, durable)
        if not scene.copies.put_back(self.behind):
            return
        after = digest(store, durable)
        scene.journal.add(
            StoreRolledBack,
            store=type(store).__name__,
            behind=self.behind,
            records_before=before[0],
            records_after=after[0],
            digest_before=before[1],
            digest_after=after[1],
        )

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        back, exited = first(after, StoreRolledBack), first(after, Exited)
        if back is None or exited is None or exited.status != -signal.SIGKILL:
            return None
        if back.digest_before == back.digest_after:
            return None
        return hit(
            "stale_store",
            at,
            f"killed, the store {back.behind} commits behind",
            status=exited.status,
            records=f"{back.records_before} -> {back.records_after}",
            digest=f"{back.digest_before} -> {back.digest_after}",
        )
