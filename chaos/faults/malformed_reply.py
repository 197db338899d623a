"""A reply comes and makes no sense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.faults import Plain, Scene
from chaos.faults._replies import some, spoiled
from chaos.journal import AnyEvent
from chaos.results import Landed
from chaos.sandbox import Survival
from chaos.world.malformed import How
from chaos.world.mishaps import Malform


@dataclass(frozen=True)
class MalformedReply(Plain):
    """The next *requests* replies of the model make no sense, in one of the ways of gateways and providers.

    *how*: `not_json` (a trailing comma), `half` of a JSON with the right length, `empty`, an `html` page with status
    200, a `bad_gateway` page with 502, `incomplete` (no `choices`, no `content`), `bad_arguments` (tool arguments that
    are no JSON; only replies that call a tool have any). In a stream, one event in its middle is so. A correct agent
    concludes nothing from it and asks again, a bounded number of times; then it fails loudly, and resumes.

    Args:
        requests: how many replies make no sense.
    """

    requests: int = 1
    how: How = "not_json"

    def __post_init__(self) -> None:
        some(self.requests)

    @property
    def survival(self) -> Survival:
        return Survival.NONE

    def inject(self, scene: Scene) -> None:
        scene.world.mishaps.arm(Malform(self.how), self.requests)

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        return spoiled("malformed_reply", at, after, "model", self.how, self.requests)
