"""The provider refuses requests: 429 with Retry-After, a burst of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from chaos.faults import Plain, Scene, hit
from chaos.journal import AnyEvent, Asked
from chaos.results import Landed
from chaos.sandbox import Survival
from chaos.scenario.units import Seconds

TOO_MANY_REQUESTS = 429


@dataclass(frozen=True)
class RateLimit(Plain):
    """The next *requests* model requests are refused with 429, and told to come back after *retry_after*.

    A correct agent waits as long as it is told, tries again, and comes out as if nothing had happened; where
    its own retries end first, it must fail loudly and resume.

    `style` is the shape of status, headers and body: that of the endpoint called (`auto`), or always OpenAI's
    or Anthropic's, as behind a gateway.
    """

    requests: int = 2
    retry_after: Seconds = 0.05
    style: Literal["auto", "openai", "anthropic"] = "auto"

    @property
    def survival(self) -> Survival:
        return Survival.NONE

    def inject(self, scene: Scene) -> None:
        scene.world.rate_limit.arm(self.requests, self.retry_after, self.style)

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        refused = [event for event in after if isinstance(event, Asked) and event.status == TOO_MANY_REQUESTS]
        if len(refused) < self.requests:
            return None
        return hit("rate_limit", at, "refused", refused_429=len(refused), retry_after_seconds=self.retry_after)
