"""The agent is killed, and again while it comes up, and again: a crash loop."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from chaos.events.done import Signalled
from chaos.events.seen import Ended, Exited
from chaos.faults import Loading, Plain, Scene, first, hit
from chaos.journal import AnyEvent
from chaos.results import Landed
from chaos.sandbox import Survival
from chaos.stretch import every


@dataclass(frozen=True)
class CrashLoop(Plain):
    """SIGKILL to the agent, and to every new incarnation when it comes to *phase*, *times* in all; then it may live.

    A correct agent loses nothing by dying while it recovers: what it takes up is only read, or taken up again whole.
    The supervisor's rules hold: it waits longer before each restart, and with *times* above `limits.backoff_limit` it
    gives up, which is then the result of the run.
    """

    dies: ClassVar[bool] = True

    times: Annotated[int, Field(ge=2)] = 3
    phase: Loading = "before_load"

    @property
    def survival(self) -> Survival:
        return Survival.PROCESS

    def inject(self, scene: Scene) -> None:
        scene.gate.kill_again(self.phase, self.times - 1)
        scene.end_by_kill()

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        sent = [event for event in every(after, Signalled) if event.signal == signal.SIGKILL]
        ended = {event.attempt: event.status for event in every(after, Exited)}
        killed = [event for event in sent if ended.get(event.attempt) == -signal.SIGKILL][: self.times]
        run = first(after, Ended)
        gave_up = run is not None and run.how == "gave up"
        if not killed or (len(killed) < self.times and not gave_up):
            return None
        how = "killed until the supervisor gave up" if gave_up else f"killed {len(killed)} times"
        pids = ", ".join(str(event.pid) for event in killed)
        return hit("crash_loop", at, how, deaths=len(killed), status=-int(signal.SIGKILL), pids=pids)
