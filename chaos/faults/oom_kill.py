"""The kernel's OOM killer ends the agent, and Kubernetes restarts its container with a fresh disk."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from chaos.events.done import DiskWiped, MemoryClamped, Signalled
from chaos.events.seen import Exited
from chaos.faults import Plain, Scene, first, hit
from chaos.journal import AnyEvent
from chaos.results import Landed
from chaos.sandbox import Able, Survival
from chaos.scenario.units import Bytes
from chaos.stretch import every


@dataclass(frozen=True)
class OomKill(Plain):
    """The sandbox's memory limit drops below what the agent needs: a real OOM kill, counted by the kernel.

    A correct agent survives the loss of its memory, its processes and, with `loses: container`, of its
    container disk: what is not in the durable zone must be made again.

    It landed only with all of: status SIGKILL, the memory cgroup's `oom_kill` counter grown, and no signal
    of ours. With `limit` above what the agent uses it misses, and the cell is NOT EXERCISED.
    """

    loses: Literal["process", "container"] = "container"
    limit: Bytes | None = None

    @property
    def survival(self) -> Survival:
        return Survival(self.loses)

    def missing(self, able: Able) -> str:
        return able.memory_limit

    def inject(self, scene: Scene) -> None:
        limit, usage, before, after = scene.sandbox.oom_kill(self.limit)
        scene.journal.add(
            MemoryClamped, limit_bytes=limit, usage_bytes=usage, oom_kill_before=before, oom_kill_after=after
        )
        if after > before:
            scene.lose(self.survival)

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        clamped, exited = first(after, MemoryClamped), first(after, Exited)
        if clamped is None or exited is None or exited.status != -signal.SIGKILL:
            return None
        ours = [event for event in every(after, Signalled) if event.at <= exited.at]
        if clamped.oom_kill_after <= clamped.oom_kill_before or ours:
            return None
        wiped = first(after, DiskWiped)
        return hit(
            "oom_kill",
            at,
            "killed by the kernel",
            status=exited.status,
            oom_kill_before=clamped.oom_kill_before,
            oom_kill_after=clamped.oom_kill_after,
            limit_bytes=clamped.limit_bytes,
            **({"entries_lost": wiped.files} if wiped else {}),
        )
