"""All was done, and the answer is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from chaos.faults import Plain, Scene
from chaos.faults._replies import some, spoiled
from chaos.journal import AnyEvent
from chaos.results import Landed
from chaos.sandbox import Survival
from chaos.world.mishaps import Lose


@dataclass(frozen=True)
class LostReply(Plain):
    """The next *requests* on *link* do what they ask for, and the connection is reset instead of an answer.

    A client cannot tell this from a request that was never received. A correct agent asks again with the same
    idempotency key, so that the effect has happened once; where a service knows no keys, it must choose, and say
    so. A reply of the model that is lost has been paid for.

    Args:
        requests: how many replies are lost.
        link: the services, or the model endpoint.
    """

    requests: int = 1
    link: Literal["services", "model"] = "services"

    def __post_init__(self) -> None:
        some(self.requests)

    @property
    def survival(self) -> Survival:
        return Survival.NONE

    def inject(self, scene: Scene) -> None:
        scene.world.mishaps.arm(Lose(), self.requests, self.link)

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        return spoiled("lost_reply", at, after, self.link, "lost", self.requests)
