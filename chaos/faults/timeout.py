"""No answer comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from chaos.faults import Plain, Scene
from chaos.faults._replies import some, spoiled
from chaos.journal import AnyEvent
from chaos.results import Landed
from chaos.sandbox import Survival
from chaos.scenario.units import Seconds
from chaos.world.mishaps import Hold


@dataclass(frozen=True)
class Timeout(Plain):
    """The next *requests* on *link* get no answer: the connection stays open for *seconds*, then it is closed.

    All was done that was asked for; only the answer does not come. A correct agent has a time limit of its own, asks
    again a bounded number of times, and does not pay twice for an effect that happened; else it fails loudly, and
    resumes. An agent without a time limit hangs as long as the other side likes.

    Args:
        requests: how many get no answer.
        seconds: how long a client waits that has no time limit of its own.
        link: the model endpoint, or the services.
    """

    requests: int = 1
    seconds: Seconds = 20.0
    link: Literal["model", "services"] = "model"

    def __post_init__(self) -> None:
        some(self.requests)

    @property
    def survival(self) -> Survival:
        return Survival.NONE

    def inject(self, scene: Scene) -> None:
        scene.world.mishaps.arm(Hold(self.seconds), self.requests, self.link)

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        return spoiled("timeout", at, after, self.link, "held", self.requests)
