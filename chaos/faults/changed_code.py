"""The agent comes back as another release of itself: a deploy while its work is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from chaos.errors import HarnessError
from chaos.events.done import Released
from chaos.events.seen import Asked, Exited, Reached
from chaos.faults import Fault, Plain, Scene, first, hit
from chaos.faults.evict import Evict
from chaos.faults.kill import Kill
from chaos.journal import AnyEvent
from chaos.outfit import Outfit
from chaos.results import Landed
from chaos.sandbox import Able, Survival


@dataclass(frozen=True)
class ChangedCode(Plain):
    """The agent ends and comes back as a release that differs in `what`; what is stored was written by the old one.

    A correct agent goes on with the old work under the new release, or refuses loudly to: to begin anew in silence, to
    leave steps out, or to wait for the old release for ever is the failure. That its prompts, or the state that the
    target names, differ from the reference's as the release says is none.

    It landed only if the new release was seen at the model endpoint: by another system message (`prompt`), other tools
    (`tools`), or the version that its client gives (`code`). One that never asks must have refused, or got stuck.

    Args:
        what: what the release changes: the system's prompt, the tools' names and descriptions, or the names of nodes,
            steps and activities in the code.
        ends: how the old release ends: killed where it stands, or moved to another node.
    """

    what: Literal["prompt", "tools", "code"] = "prompt"
    ends: Literal["kill", "evict"] = "kill"

    @property
    def outfit(self) -> Outfit:  # type: ignore[override]
        return Outfit(releases=frozenset({self.what}))

    @property
    def survival(self) -> Survival:
        return self._end.survival

    def missing(self, able: Able) -> str:
        return self._end.missing(able)

    def inject(self, scene: Scene) -> None:
        if scene.deploy is None:
            raise HarnessError("the run cannot start another release of its target")
        self._end.inject(scene)
        scene.deploy(self.what)

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        ended, released = self._end.landed(at, after), first(after, Released)
        if ended is None or released is None:
            return None
        later = [event for event in after if event.attempt > released.attempt]
        asked = [event for event in later if isinstance(event, Asked)]
        seen = next((request for request in asked if self._shows(request, released)), None)
        if seen is not None:
            return hit("changed_code", at, f"{ended.how}, came back as another release", what=self.what, turn=seen.turn)
        if asked or first(later, Reached) is None:
            return None
        errors = [event.status for event in later if isinstance(event, Exited) and event.status > 0]
        how = "which ended with an error" if errors else "which asked nothing"
        return hit("changed_code", at, f"{ended.how}, came back as another release, {how}", what=self.what)

    @property
    def _end(self) -> Fault:
        return Evict() if self.ends == "evict" else Kill()

    def _shows(self, request: Asked, released: Released) -> bool:
        """Tell whether *request* comes from the new release: it says so, and differs where the old one was seen."""
        was, now = {
            "prompt": (released.system, request.beginning),
            "tools": (released.tools, request.tools),
            "code": ("", ""),
        }[self.what]
        return request.release == released.release and (not was or was != now)
