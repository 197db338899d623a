"""The process tree dies without a word, as by `kill -9`, or by a signal that the agent may answer."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from chaos.events.done import Signalled
from chaos.events.seen import Exited
from chaos.faults import Plain, Scene, first, hit
from chaos.journal import AnyEvent
from chaos.results import Landed
from chaos.sandbox import Survival
from chaos.scenario.units import Seconds


@dataclass(frozen=True)
class Kill(Plain):
    """SIGKILL to the whole process tree; or SIGTERM or SIGINT to its first process. The disk stays as it is.

    A correct agent goes on from its last commit. Its disk may be ahead of that: the step in flight is done
    again, and must come out the same. What it does when it is asked to end makes no difference: it comes back as
    from SIGKILL, and does not report success (exit status 0) for work that is not done.

    After SIGTERM or SIGINT the agent stays held at its point, and only what its handler starts may happen, for
    *grace*; SIGKILL ends what is left then. The first process of a container gets only the signals that it handles.

    Args:
        signal: what is sent; SIGTERM and SIGINT can be handled.
    """

    signal: Literal["SIGKILL", "SIGTERM", "SIGINT"] = "SIGKILL"
    grace: Seconds = 0.5

    @property
    def survival(self) -> Survival:
        return Survival.PROCESS

    @property
    def dies(self) -> bool:  # type: ignore[override]  # a constant for most
        return self.signal == "SIGKILL"

    def inject(self, scene: Scene) -> None:
        if self.signal != "SIGKILL":
            scene.signal(signal.Signals[self.signal])
            if scene.gate.serve_until_exit(self.grace):
                return
        scene.end_by_kill()

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        sent, exited = first(after, Signalled), first(after, Exited)
        if sent is None or exited is None or sent.signal != signal.Signals[self.signal]:
            return None
        killed = exited.status == -signal.SIGKILL
        if self.signal == "SIGKILL":
            return hit("kill", at, "killed", status=exited.status, pid=sent.pid) if killed else None
        how = f"{self.signal}, killed after {self.grace:g} s" if killed else f"ended by {self.signal}"
        return hit("kill", at, how, status=exited.status, pid=sent.pid, signal=self.signal)
