"""The pod is evicted: SIGTERM, a grace period, SIGKILL; it comes back on another node with an empty disk."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.events.done import DiskWiped, HostRenamed, Signalled
from chaos.events.seen import Exited
from chaos.faults import Plain, Scene, first, hit
from chaos.journal import AnyEvent
from chaos.results import Landed
from chaos.sandbox import Able, Survival
from chaos.scenario.units import Seconds


@dataclass(frozen=True)
class Evict(Plain):
    """SIGTERM to the agent, *grace* to come to an end, SIGKILL to what is left; container disk and host are lost.

    A correct agent stops within the grace period or loses nothing by not doing so, and resumes from the durable
    zone alone: files, processes and hostname of the old node are gone.

    While the grace runs, the agent stays held at its point: only what its SIGTERM handler starts may happen, so
    that an eviction hits the same place in every run.
    """

    grace: Seconds = 0.5

    @property
    def survival(self) -> Survival:
        return Survival.NODE

    def missing(self, able: Able) -> str:
        return able.hostname

    def inject(self, scene: Scene) -> None:
        scene.signal(signal.SIGTERM)
        if not scene.gate.serve_until_exit(self.grace):
            scene.end_by_kill()
        scene.lose(self.survival)

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        sent = first(after, Signalled)
        exited, wiped, renamed = first(after, Exited), first(after, DiskWiped), first(after, HostRenamed)
        if sent is None or sent.signal != signal.SIGTERM or exited is None or wiped is None or renamed is None:
            return None
        how = "evicted" if exited.status != -signal.SIGKILL else "evicted, killed after the grace period"
        return hit(
            "evict", at, how, status=exited.status, entries_lost=wiped.files, host=f"{renamed.old} -> {renamed.new}"
        )
