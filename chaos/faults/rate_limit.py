"""The provider refuses requests: 429 with Retry-After, a burst of them, or because the account is used up."""

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
from chaos.world.refusals import QUOTA, RATE_LIMIT


@dataclass(frozen=True)
class RateLimit(Plain):
    """The next *requests* model requests are refused with 429, and told to come back after *retry_after*.

    A correct agent waits as long as it is told, after a restart too, tries again, and comes out as if nothing had
    happened; where its own retries end first, it must fail loudly and resume.

    With `quota: sticky` the account is used up instead: every request of this incarnation is refused in the
    provider's own words for that (OpenAI: 429 `insufficient_quota` without Retry-After; Anthropic: 400), `requests`
    and `retry_after` mean nothing, and it is topped up before the next incarnation asks. A correct agent does not
    wait for what waiting cannot bring: it stops loudly at once, and resumes when it is started again.

    `style` is the shape of status, headers and body: that of the endpoint called (`auto`), or always OpenAI's
    or Anthropic's, as behind a gateway.
    """

    requests: int = 2
    retry_after: Seconds = 0.05
    style: Literal["auto", "openai", "anthropic"] = "auto"
    quota: Literal["retryable", "sticky"] = "retryable"

    def __post_init__(self) -> None:
        some(self.requests)

    @property
    def survival(self) -> Survival:
        return Survival.NONE

    def inject(self, scene: Scene) -> None:
        if self.quota == "sticky":
            scene.world.mishaps.arm_during(scene.journal.actor, Refuse(style=self.style, quota=True))
        else:
            scene.world.mishaps.arm(Refuse(429, self.retry_after, self.style), self.requests)

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        sticky = self.quota == "sticky"
        why = QUOTA if sticky else RATE_LIMIT
        refused = [event for event in every(after, Asked) if event.refused == why]
        if len(refused) < (1 if sticky else self.requests):
            return None
        if sticky:
            return hit("rate_limit", at, "quota used up", refused=len(refused), status=refused[0].status)
        return hit("rate_limit", at, "refused", refused_429=len(refused), retry_after_seconds=self.retry_after)
