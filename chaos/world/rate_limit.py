"""Refusals as the providers send them: status, headers and body of a rate limit or an overload."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from chaos.world import anthropic_messages, openai_chat

Style = Literal["auto", "openai", "anthropic"]
STYLES = ("auto", "openai", "anthropic")
STATUSES = (429, 500, 503, 529)  # rate limit, internal error, overloaded (OpenAI), overloaded (Anthropic)

REQUESTS_PER_MINUTE = 500  # the limit that the headers speak of: OpenAI's first paid tier
TOKENS_PER_MINUTE = 200_000  # the same tier's; it is the requests that run out


@dataclass(frozen=True)
class Refusal:
    """A complete answer to a refused request. *style*: the provider whose shape it has."""

    style: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class RateLimiter:
    """Refuses the next model requests when armed; safe to use from several threads.

    Args:
        clock: seconds since 1970, for the times that Anthropic's headers tell.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._remaining = 0
        self._retry_after = 0.0
        self._style: Style = "auto"
        self._status = 429

    def arm(self, count: int, retry_after_seconds: float, style: Style = "auto", status: int = 429) -> None:
        """Refuse the next *count* model requests, in place of what was armed before.

        Args:
            count: requests; 0 disarms.
            retry_after_seconds: what the client is told to wait. Providers send whole seconds, so `retry-after` is
                rounded up; `retry-after-ms`, which only OpenAI sends, is exact to the millisecond.
            style: "auto" for the shape of the endpoint that was called, or a gateway's one shape for both.
            status: 429, 500, 503 or 529.
        """
        if count < 0 or not 0 <= retry_after_seconds < math.inf:
            raise ValueError(f"count and retry_after_seconds start at 0 (got {count} and {retry_after_seconds})")
        if style not in STYLES:
            raise ValueError(f"no style {style!r}; known: {', '.join(STYLES)}")
        if status not in STATUSES:
            raise ValueError(f"no refusal has status {status}; known: {', '.join(map(str, STATUSES))}")
        with self._lock:
            self._remaining, self._retry_after = count, retry_after_seconds
            self._style, self._status = style, status

    @property
    def remaining(self) -> int:
        """How many requests are still to be refused."""
        with self._lock:
            return self._remaining

    def refuse(self, endpoint: str) -> Refusal | None:
        """Take one refusal for a request to *endpoint* ("openai" or "anthropic"); None if none is left."""
        with self._lock:
            if not self._remaining:
                return None
            self._remaining -= 1
            style = endpoint if self._style == "auto" else self._style
            status, wait = self._status, self._retry_after
        if style == anthropic_messages.STYLE:
            return Refusal(style, status, self._anthropic_headers(status, wait), _anthropic_body(status))
        return Refusal(style, status, _openai_headers(status, wait), _openai_body(status, wait))

    def _anthropic_headers(self, status: int, wait: float) -> tuple[tuple[str, str], ...]:
        after = ("retry-after", str(math.ceil(wait)))
        if status != 429:
            return (after,)
        now = self._clock()
        name = "anthropic-ratelimit"
        return (
            after,
            (f"{name}-requests-limit", str(REQUESTS_PER_MINUTE)),
            (f"{name}-requests-remaining", "0"),
            (f"{name}-requests-reset", _rfc3339(now + wait)),
            (f"{name}-tokens-limit", str(TOKENS_PER_MINUTE)),
            (f"{name}-tokens-remaining", str(TOKENS_PER_MINUTE)),
            (f"{name}-tokens-reset", _rfc3339(now)),
        )


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(math.ceil(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _anthropic_body(status: int) -> bytes:
    message = {
        429: f"This request would exceed your organization's rate limit of {REQUESTS_PER_MINUTE} requests per minute.",
        500: "Internal server error",
    }.get(status, "Overloaded")
    return anthropic_messages.error(status, message, "overloaded_error" if status == 503 else "")


def _openai_headers(status: int, wait: float) -> tuple[tuple[str, str], ...]:
    after = (("retry-after", str(math.ceil(wait))), ("retry-after-ms", str(math.ceil(wait * 1000))))
    if status != 429:
        return after
    return (
        *after,
        ("x-ratelimit-limit-requests", str(REQUESTS_PER_MINUTE)),
        ("x-ratelimit-limit-tokens", str(TOKENS_PER_MINUTE)),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-remaining-tokens", str(TOKENS_PER_MINUTE)),
        ("x-ratelimit-reset-requests", _go_duration(wait)),
        ("x-ratelimit-reset-tokens", "0s"),
    )


def _go_duration(seconds: float) -> str:
    """Return *seconds* as OpenAI writes them: "12ms", "1.5s", "6m0s"."""
    milliseconds = math.ceil(seconds * 1000)
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    return (f"{minutes}m" if minutes else "") + f"{rest / 1000:g}s"


def _openai_body(status: int, wait: float) -> bytes:
    if status == 429:
        limit = f"Limit {REQUESTS_PER_MINUTE}, Used {REQUESTS_PER_MINUTE}, Requested 1"
        message = f"Rate limit reached on requests per min (RPM): {limit}. Please try again in {_go_duration(wait)}."
        return openai_chat.error(status, message, "requests", "rate_limit_exceeded")
    if status == 500:
        return openai_chat.error(status, "The server had an error while processing your request. Sorry about that!")
    return openai_chat.error(status, "The engine is currently overloaded, please try again later")
