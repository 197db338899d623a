"""The wall clock jumps: a correction by NTP, a wrong time zone, a host whose battery was empty."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from chaos.errors import HarnessError
from chaos.events.done import ClockMoved, ClockRead
from chaos.events.seen import Exited
from chaos.faults import Plain, Scene, first, hit
from chaos.journal import AnyEvent
from chaos.outfit import Outfit
from chaos.results import Landed
from chaos.sandbox import Able, Survival
from chaos.scenario.units import Seconds


@dataclass(frozen=True)
class ClockJump(Plain):
    """The agent's wall clock jumps; the model's, the services' and the servers' clocks stay right.

    A correct agent lets the wall clock decide nothing: no step is lost or done twice, the newest checkpoint is the
    last one written, and no wait or lease is cut short or made endless.

    It landed only if a helper in the agent's environment reads the moved clock, and if a process of the agent looked
    at it afterwards: an agent that never asks for the time cannot be wrong about it.

    Args:
        seconds: how far it jumps.
        direction: into the past or into the future.
        with_kill: the agent is killed first and comes back under the other clock, as on another node.
    """

    outfit: ClassVar[Outfit] = Outfit(clock=True)

    seconds: Seconds = 3600.0
    direction: Literal["back", "forward"] = "back"
    with_kill: bool = False

    @property
    def survival(self) -> Survival:
        return Survival.PROCESS if self.with_kill else Survival.NONE

    def missing(self, able: Able) -> str:
        return able.clock

    def inject(self, scene: Scene) -> None:
        if scene.clock is None:
            raise HarnessError("the run was started without a clock that can be moved (Outfit.clock)")
        if self.with_kill:
            scene.end_by_kill()
        scene.clock.jump(scene.journal, round(self.seconds) * (-1 if self.direction == "back" else 1))

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        moved, read = first(after, ClockMoved), first(after, ClockRead)
        if moved is None or read is None:
            return None
        exited = first(after, Exited)
        if self.with_kill and (exited is None or exited.status != -signal.SIGKILL or read.attempt == moved.attempt):
            return None
        how = "killed, and back under another clock" if self.with_kill else "jumped"
        off = f"{moved.before_seconds:.3f} -> {moved.after_seconds:.3f}"
        return hit("clock_jump", at, how, jumped_seconds=moved.seconds, seconds_off=off, read_in_attempt=read.attempt)
