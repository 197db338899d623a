"""What can go wrong with a reply, and which of the next replies it goes wrong with."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from chaos.world import Reply
from chaos.world.delivery import End
from chaos.world.malformed import HOW, How
from chaos.world.refusals import STATUSES, STYLES, Style

Link = Literal["model", "services"]


@dataclass(frozen=True)
class Refuse:
    """The request is refused unread, and nothing is billed.

    Args:
        retry_after: seconds that the client is told to wait; None to tell it nothing.
        style: "auto" for the shape of the endpoint that was called, or a gateway's one shape for both.
        quota: the account is used up: status, headers and body are the provider's own for that.
    """

    status: int = 429
    retry_after: float | None = 0.0
    style: Style = "auto"
    quota: bool = False

    def __post_init__(self) -> None:
        if self.retry_after is not None and not 0 <= self.retry_after < math.inf:
            raise ValueError(f"retry_after starts at 0 (got {self.retry_after})")
        if self.style not in STYLES:
            raise ValueError(f"no style {self.style!r}; known: {', '.join(STYLES)}")
        if self.status not in STATUSES:
            raise ValueError(f"no refusal has status {self.status}; known: {', '.join(map(str, STATUSES))}")


@dataclass(frozen=True)
class Hold:
    """The reply does not come: the connection stays open for *seconds*, or until the client gives up."""

    seconds: float


@dataclass(frozen=True)
class Lose:
    """All was done that was asked for, and the connection is reset instead of an answer."""


@dataclass(frozen=True)
class Cut:
    """A streamed reply breaks off.

    Args:
        dropped: the connection is reset; else the response ends as a whole one does, without a word that it is not.
        after: share of the events before the closing ones that are still sent.
    """

    dropped: bool
    after: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.after <= 1:
            raise ValueError(f"after is a share from 0 to 1 (got {self.after})")


@dataclass(frozen=True)
class Malform:
    """The reply comes and makes no sense."""

    how: How

    def __post_init__(self) -> None:
        if self.how not in HOW:
            raise ValueError(f"no malformed reply {self.how!r}; known: {', '.join(HOW)}")


Mishap = Refuse | Hold | Lose | Cut | Malform


def fits(mishap: Mishap, *, streamed: bool = False, reply: Reply | None = None) -> bool:
    """Tell whether *mishap* can happen to a *reply* of the model, or to the answer of a service if there is none.

    Only a stream is cut, only a call has arguments.
    """
    if isinstance(mishap, Cut):
        return streamed
    if isinstance(mishap, Malform):
        return reply is not None and (mishap.how != "bad_arguments" or bool(reply.tool_calls))
    return isinstance(mishap, Hold | Lose)


def how(mishap: Mishap) -> str:
    """Return what the journal calls *mishap* (see `Spoiled`)."""
    return mishap.how if isinstance(mishap, Malform) else end(mishap)


def end(mishap: Mishap) -> End:
    """Return how a response ends to which *mishap* happens."""
    match mishap:
        case Hold():
            return "held"
        case Lose():
            return "lost"
        case Cut():
            return "dropped" if mishap.dropped else "truncated"
    return "whole"


@dataclass
class _Armed:
    mishap: Mishap
    link: Link
    left: float  # requests; infinite where only the incarnation's end ends it
    attempt: int  # the incarnation that it is for, 0 for any


class Mishaps:
    """What has been armed and not yet happened, in this order; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._armed: list[_Armed] = []

    def arm(self, mishap: Mishap, requests: int = 1, link: Link = "model") -> None:
        """Let *mishap* happen to the next *requests* requests on *link* that it can happen to."""
        if requests < 0:
            raise ValueError(f"requests start at 0 (got {requests})")
        with self._lock:
            self._armed.append(_Armed(mishap, link, requests, 0))

    def arm_during(self, attempt: int, mishap: Mishap, link: Link = "model") -> None:
        """Let *mishap* happen to every request on *link* until the incarnation after *attempt* asks."""
        with self._lock:
            self._armed.append(_Armed(mishap, link, math.inf, attempt))

    def remaining(self, link: Link = "model") -> float:
        """How many requests on *link* something is still to happen to."""
        with self._lock:
            return sum(one.left for one in self._armed if one.link == link)

    def take(self, link: Link, attempt: int, fits: Callable[[Mishap], bool]) -> Mishap | None:
        """Take the first mishap that *fits* a request of the incarnation *attempt* on *link*; None if there is none."""
        with self._lock:
            self._armed = [one for one in self._armed if one.left and (not one.attempt or attempt <= one.attempt)]
            for one in self._armed:
                if one.link == link and one.attempt in (0, attempt) and fits(one.mishap):
                    one.left -= 1
                    return one.mishap
        return None


class Window:
    """The model's context window: none until it is armed, then prompts above it are refused; thread-safe."""

    SHARE = 0.95  # of the next prompt: "a bit less", so that this prompt is the first that does not fit

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: int | None = None  # 0: to be set by the next prompt

    def arm(self, tokens: int) -> None:
        """Take prompts of at most *tokens* from now on; 0: a bit less than the next prompt has."""
        if tokens < 0:
            raise ValueError(f"tokens start at 0 (got {tokens})")
        with self._lock:
            self._tokens = tokens

    def exceeded(self, tokens: int) -> int | None:
        """Return the most that the model takes if a prompt of *tokens* is above it, else None."""
        with self._lock:
            if self._tokens == 0:
                self._tokens = max(1, int(tokens * self.SHARE))
            return self._tokens if self._tokens is not None and tokens > self._tokens else None
