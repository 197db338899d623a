"""The agent stops moving: a deadlock, a blocked disk, a machine that swaps. Nobody but a watchdog notices."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.events.done import HeartbeatMissed, Stopped
from chaos.events.seen import Exited
from chaos.faults import Plain, Scene, first, hit
from chaos.journal import AnyEvent
from chaos.results import Landed
from chaos.sandbox import Survival
from chaos.sandbox.tree import settled

STOPPED = "T"


@dataclass(frozen=True)
class Hang(Plain):
    """Every process of the agent is stopped where it is; the watchdog kills it after `limits.heartbeat` of silence.

    A correct agent survives it like a kill: memory and processes are lost, the disk stays. Connections and locks that
    it holds stay open until the watchdog acts.

    It landed only with the stopped state seen in /proc, the heartbeat missed, and the end by the watchdog's SIGKILL.
    With `limits.heartbeat` above `limits.deadline` it misses.
    """

    @property
    def survival(self) -> Survival:
        return Survival.PROCESS

    def inject(self, scene: Scene) -> None:
        pids = scene.sandbox.stop()
        scene.journal.add(Stopped, pids=pids, states=tuple(settled(pid, STOPPED) for pid in pids))

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        stopped, missed, exited = first(after, Stopped), first(after, HeartbeatMissed), first(after, Exited)
        if stopped is None or not stopped.pids or set(stopped.states) != {STOPPED}:
            return None
        if missed is None or exited is None or exited.status != -signal.SIGKILL or exited.at < missed.at:
            return None
        return hit(
            "hang", at, "stopped, killed by the watchdog",
            processes=len(stopped.pids), state=STOPPED, silent_seconds=missed.seconds, status=exited.status,
        )  # fmt: skip
