"""The prompt does not fit any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.errors import ScenarioError
from chaos.events.seen import Asked
from chaos.faults import Plain, Scene, hit
from chaos.journal import AnyEvent
from chaos.results import Landed
from chaos.sandbox import Survival
from chaos.stretch import every
from chaos.world.refusals import TOO_LONG


@dataclass(frozen=True)
class ContextOverflow(Plain):
    """From here on the model takes prompts of at most *tokens*; longer ones are refused in the provider's own words.

    That is 400 with `context_length_exceeded` from OpenAI, and with "prompt is too long: N tokens > M maximum" from
    Anthropic. To ask again does not help. A correct agent shortens its prompt and keeps its goal in it, or stops
    loudly; it does not lose what it was asked to do.

    Args:
        tokens: the window; 0 for a bit less (5 %) than the next prompt has.
    """

    tokens: int = 0

    def __post_init__(self) -> None:
        if self.tokens < 0:
            raise ScenarioError(f"tokens must not be negative (got {self.tokens})")

    @property
    def survival(self) -> Survival:
        return Survival.NONE

    def inject(self, scene: Scene) -> None:
        scene.world.window.arm(self.tokens)

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        refused = [event for event in every(after, Asked) if event.refused == TOO_LONG]
        if not refused:
            return None
        return hit("context_overflow", at, "prompt refused", refused=len(refused), prompt_tokens=refused[0].tokens_in)
