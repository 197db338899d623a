"""A streamed reply breaks off: with an error, or without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from chaos.errors import ScenarioError
from chaos.faults import Plain, Scene
from chaos.faults._replies import some, spoiled
from chaos.journal import AnyEvent
from chaos.results import Landed
from chaos.sandbox import Survival
from chaos.world.mishaps import Cut


@dataclass(frozen=True)
class StreamCut(Plain):
    """The next *requests* streamed replies of the model break off after a share of their events.

    *how*: `dropped` resets the connection in the middle of an event, which every client notices. `truncated` ends the
    response as a whole one ends, without finish reason, [DONE] or message_stop: no SDK raises anything. A correct
    agent takes neither for an answer, does nothing that half a reply says, and asks again.

    Only replies that are streamed can be cut: an agent that does not stream leaves the fault NOT EXERCISED.

    Args:
        requests: how many replies are cut.
        after: share of the events before the closing ones that still come: 0 for none, 1 for the whole text without
            a word that it is whole.
    """

    requests: int = 1
    how: Literal["truncated", "dropped"] = "truncated"
    after: float = 0.5

    def __post_init__(self) -> None:
        some(self.requests)
        if not 0 <= self.after <= 1:
            raise ScenarioError(f"after is a share, from 0 to 1 (got {self.after})")

    @property
    def survival(self) -> Survival:
        return Survival.NONE

    def inject(self, scene: Scene) -> None:
        scene.world.mishaps.arm(Cut(self.how == "dropped", self.after), self.requests)

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        return spoiled("stream_cut", at, after, "model", self.how, self.requests)
