"""The process tree dies without a word, as by `kill -9`, a crash of the runtime or a lost terminal."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.faults import Plain, Scene, first, hit
from chaos.journal import AnyEvent, Exited, Signalled
from chaos.results import Landed
from chaos.sandbox import Survival


@dataclass(frozen=True)
class Kill(Plain):
    """SIGKILL to the whole process tree; the disk stays as it is.

    A correct agent goes on from its last commit. Its disk may be ahead of that: the step in flight is done
    again, and must come out the same.
    """

    @property
    def survival(self) -> Survival:
        return Survival.PROCESS

    def inject(self, scene: Scene) -> None:
        scene.end_by_kill()

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        sent, exited = first(after, Signalled), first(after, Exited)
        if sent is None or exited is None or exited.status != -signal.SIGKILL:
            return None
        return hit("kill", at, "killed", status=exited.status, pid=sent.pid)
