"""Refusals as the providers send them: status, headers and body of a rate limit, an overload, a used-up quota, a
prompt that is too long."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from chaos.world import anthropic_messages, gemini, openai_chat

Style = Literal["auto", "openai", "anthropic"]
STYLES = ("auto", "openai", "anthropic")
STATUSES = (429, 500, 503, 529)  # rate limit, internal error, overloaded (OpenAI), overloaded (Anthropic)

REQUESTS_PER_MINUTE = 500  # the limit that the headers speak of: OpenAI's first paid tier
TOKENS_PER_MINUTE = 200_000  # the same tier's; it is the requests that run out

RATE_LIMIT, OVERLOADED, QUOTA, TOO_LONG = "rate_limit", "overloaded", "quota", "context_length"
"""Why a request is refused, as the journal calls it; a quota does not come back by waiting."""

QUOTA_USED = (
    "You exceeded your current quota, please check your plan and billing details. For more information on this error,"
    " read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors."
)
CREDIT_USED = (
    "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase"
    " credits."
)

TOO_LONG_INPUT = "Your input exceeds the context window of this model. Please adjust your input and try again."
"""What OpenAI's Responses API says, which names no numbers."""

CREDITS_GONE = (
    "Your prepayment credits are depleted. Please go to AI Studio at https://ai.studio/projects to manage your project"
    " and billing."
)
GOOGLE_TYPES = "type.googleapis.com/google.rpc"


@dataclass(frozen=True)
class Refusal:
    """A complete answer to a refused request.

    Args:
        style: the provider whose shape it has.
        why: one of the reasons above.
        retry_after: the least number of seconds that its headers ask to wait; None where they name none.
    """

    style: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    why: str
    retry_after: float | None = None


def refusal(style: str, status: int, wait: float | None, now: float) -> Refusal:
    """Return a refusal that may pass by waiting.

    Providers send whole seconds, so `retry-after` is rounded up; `retry-after-ms`, which only OpenAI sends, is exact
    to the millisecond. Google sends no such header: its body tells when, exactly too.

    Args:
        wait: seconds that the client is told to wait; None to tell it nothing.
        now: seconds since 1970, for the times that Anthropic's headers tell.
    """
    why = RATE_LIMIT if status == 429 else OVERLOADED
    if style == anthropic_messages.STYLE:
        told = None if wait is None else float(math.ceil(wait))
        return Refusal(style, status, _anthropic_headers(status, wait, now), _anthropic_body(status), why, told)
    told = None if wait is None else math.ceil(wait * 1000) / 1000
    if style == gemini.STYLE:
        return Refusal(style, status, (), _gemini_body(status, told), why, told)
    return Refusal(style, status, _openai_headers(status, wait), _openai_body(status, wait), why, told)


def quota_used(style: str) -> Refusal:
    """Return the refusal of an account that is used up: 429, but 400 from Anthropic, and no word of when."""
    if style == gemini.STYLE:
        return Refusal(style, 429, (), gemini.error(429, CREDITS_GONE), QUOTA)
    if style == anthropic_messages.STYLE:
        return Refusal(style, 400, (), anthropic_messages.error(400, CREDIT_USED), QUOTA)
    body = openai_chat.error(429, QUOTA_USED, "insufficient_quota", "insufficient_quota")
    return Refusal(style, 429, (), body, QUOTA)


def too_long(style: str, tokens: int, maximum: int, field: str = openai_chat.PROMPT) -> Refusal:
    """Return the refusal of a prompt of *tokens*, in *field* of its request, where the model takes *maximum*."""
    if style == gemini.STYLE:
        message = f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({maximum})."
        return Refusal(style, 400, (), gemini.error(400, message), TOO_LONG)
    if style == anthropic_messages.STYLE:
        message = f"prompt is too long: {tokens} tokens > {maximum} maximum"
        return Refusal(style, 400, (), anthropic_messages.error(400, message), TOO_LONG)
    message = (
        f"This model's maximum context length is {maximum} tokens. However, your messages resulted in {tokens} tokens."
        " Please reduce the length of the messages."
    )
    if field != openai_chat.PROMPT:
        message = TOO_LONG_INPUT
    body = openai_chat.error(400, message, code="context_length_exceeded", param=field)
    return Refusal(style, 400, (), body, TOO_LONG)


def _anthropic_headers(status: int, wait: float | None, now: float) -> tuple[tuple[str, str], ...]:
    after = () if wait is None else (("retry-after", str(math.ceil(wait))),)
    if status != 429:
        return after
    name = "anthropic-ratelimit"
    return (
        *after,
        (f"{name}-requests-limit", str(REQUESTS_PER_MINUTE)),
        (f"{name}-requests-remaining", "0"),
        (f"{name}-requests-reset", _rfc3339(now + (wait or 0.0))),
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


def _openai_headers(status: int, wait: float | None) -> tuple[tuple[str, str], ...]:
    exact = wait or 0.0
    waits = (("retry-after", str(math.ceil(exact))), ("retry-after-ms", str(math.ceil(exact * 1000))))
    after = () if wait is None else waits
    if status != 429:
        return after
    return (
        *after,
        ("x-ratelimit-limit-requests", str(REQUESTS_PER_MINUTE)),
        ("x-ratelimit-limit-tokens", str(TOKENS_PER_MINUTE)),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-remaining-tokens", str(TOKENS_PER_MINUTE)),
        ("x-ratelimit-reset-requests", _go_duration(exact)),
        ("x-ratelimit-reset-tokens", "0s"),
    )


def _go_duration(seconds: float) -> str:
    """Return *seconds* as OpenAI writes them: "12ms", "1.5s", "6m0s"."""
    milliseconds = math.ceil(seconds * 1000)
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    return (f"{minutes}m" if minutes else "") + f"{rest / 1000:g}s"


def _openai_body(status: int, wait: float | None) -> bytes:
    if status == 429:
        limit = f"Limit {REQUESTS_PER_MINUTE}, Used {REQUESTS_PER_MINUTE}, Requested 1"
        again = "" if wait is None else f" Please try again in {_go_duration(wait)}."
        message = f"Rate limit reached on requests per min (RPM): {limit}.{again}"
        return openai_chat.error(status, message, "requests", "rate_limit_exceeded")
    if status == 500:
        return openai_chat.error(status, "The server had an error while processing your request. Sorry about that!")
    return openai_chat.error(status, "The engine is currently overloaded, please try again later")


def _gemini_body(status: int, wait: float | None) -> bytes:
    if status == 429:
        metric = "generativelanguage.googleapis.com/generate_content_paid_tier_requests"
        again = "" if wait is None else f"\nPlease retry in {wait:g}s."
        violation = {"quotaMetric": metric, "quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}
        details = [{"@type": f"{GOOGLE_TYPES}.QuotaFailure", "violations": [violation]}]
        message = f"Quota exceeded for metric: {metric}, limit: {REQUESTS_PER_MINUTE}.{again}"
    else:
        details = []
        message = {
            500: "An internal error has occurred. Please retry or report in "
            "https://developers.generativeai.google/guide/troubleshooting"
        }.get(status, "The model is overloaded. Please try again later.")
    if wait is not None:
        details.append({"@type": f"{GOOGLE_TYPES}.RetryInfo", "retryDelay": f"{wait:g}s"})
    return gemini.error(status, message, details)
