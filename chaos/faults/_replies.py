"""What the faults of replies share: how many, and the proof that they went wrong while a client was there to see it."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.errors import ScenarioError
from chaos.events.seen import Spoiled
from chaos.faults import hit
from chaos.journal import AnyEvent
from chaos.results import Landed
from chaos.stretch import every


def some(requests: int) -> None:
    """Refuse a number of *requests* that is none: a fault that hits nothing would always have hit all of it."""
    if requests < 1:
        raise ScenarioError(f"requests must be at least 1 (got {requests})")


def spoiled(fault: str, at: str, after: Sequence[AnyEvent], link: str, how: str, requests: int) -> Landed | None:
    """Return the proof that at least *requests* replies on *link* went wrong as *how*; None if fewer did."""
    found = [event for event in every(after, Spoiled) if (event.link, event.how) == (link, how)]
    if len(found) < requests:
        return None
    one = found[0]
    seconds = {"held_seconds": max(event.held_seconds for event in found)} if how == "held" else {}
    return hit(
        fault, at, how, replies=len(found), path=one.path, status=one.status,
        sent_bytes=one.sent_bytes, whole_bytes=one.whole_bytes, **seconds,
    )  # fmt: skip
