"""The provider has too much to do: 503 or 529, with or without a word of when to come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from chaos.events.seen import Asked
from chaos.faults import Plain, Scene, hit
from chaos.faults._replies import some
from chaos.journal import AnyEvent
from chaos.results import Landed
from chaos.sandbox import Survival
from chaos.scenario.units import Seconds
from chaos.stretch import every
from chaos.world.mishaps import Refuse
from chaos.world.refusals import OVERLOADED


@dataclass(frozen=True)
class Overloaded(Plain):
    """The next *requests* model requests are answered with *status* (503 is OpenAI's, 529 Anthropic's, 500 both').

    A correct agent backs off by itself, longer each time, and tries again a bounded number of times; then it fails
    loudly, and resumes. An overload that every client answers at once with more requests does not end.

    Args:
        requests: how many are refused.
        status: of the answer.
        retry_after: what the client is told to wait; without it, it is told nothing.
        style: as in `rate_limit`.
    """

    requests: int = 2
    status: Literal[503, 529, 500] = 503
    retry_after: Seconds | None = None
    style: Literal["auto", "openai", "anthropic"] = "auto"

    def __post_init__(self) -> None:
        some(self.requests)

    @property
    def survival(self) -> Survival:
        return Survival.NONE

    def inject(self, scene: Scene) -> None:
        scene.world.mishaps.arm(Refuse(self.status, self.retry_after, self.style), self.requests)

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        refused = [e for e in every(after, Asked) if (e.refused, e.status) == (OVERLOADED, self.status)]
        if len(refused) < self.requests:
            return None
        return hit("overloaded", at, "overloaded", refused=len(refused), status=self.status)
