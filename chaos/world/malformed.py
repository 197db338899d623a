"""Replies that come and make no sense, in the ways that gateways and providers really send them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import msgspec

from chaos.world import Reply, ToolCall, ToolFunction, gemini
from chaos.world.openai_chat import Completion, Dialect

How = Literal["not_json", "half", "empty", "html", "bad_gateway", "incomplete", "bad_arguments"]
HOW: tuple[str, ...] = get_args(How)

BAD_GATEWAY = 502
HTML = "text/html; charset=utf-8"
PAGE = (
    b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n"
    b"<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)

_NEEDED = (
    "choices", "candidates", "output", "content", "delta", "content_block", "message", "part", "item", "response",
)  # what a client of any dialect reads  # fmt: skip


@dataclass(frozen=True)
class Rendered:
    """What is sent: one body, or the events of a stream. *kind* is a content type other than the usual one."""

    status: int
    body: bytes | tuple[bytes, ...]
    kind: str = ""


def rendered(dialect: Dialect, done: Completion, *, streamed: bool) -> Rendered:
    """Return the reply as it should be sent."""
    return Rendered(200, tuple(dialect.events(done)) if streamed else dialect.render(done))


def malformed(how: How, dialect: Dialect, done: Completion, *, streamed: bool) -> Rendered:
    """Return the reply as it must not be sent.

    Args:
        how: "not_json" and "half" are no JSON, "empty" is nothing at all, "html" and "bad_gateway" (with its status)
            are a page from something in between, "incomplete" lacks the part that matters, and with "bad_arguments"
            the arguments of the tool calls break off (Gemini sends no call then, and says why). A stream has one such
            event in its middle.
    """
    if how == "bad_gateway":
        return Rendered(BAD_GATEWAY, PAGE, HTML)
    if how == "html":
        return Rendered(200, PAGE, HTML)
    if how == "empty":
        return Rendered(200, () if streamed else b"")
    if how == "bad_arguments":
        return _bad_arguments(dialect, done, streamed)
    if not streamed:
        return Rendered(200, _damaged(how, dialect.render(done)))
    events = tuple(dialect.events(done))
    middle = len(events) // 2
    head, mark, data = events[middle].partition(b"data: ")
    wrong = head + mark + _damaged(how, data.rstrip()) + b"\n\n"
    return Rendered(200, (*events[:middle], wrong, *events[middle + 1 :]))


def _damaged(how: str, data: bytes) -> bytes:
    """Return the JSON *data* damaged."""
    if how == "not_json":
        return data[:-1] + b",}"  # a trailing comma: what templates write, and no parser of JSON takes
    if how == "half":
        return data[: len(data) // 2]
    value: dict[str, Any] = msgspec.json.decode(data)
    key = next((key for key in _NEEDED if key in value), "")
    return msgspec.json.encode({name: part for name, part in value.items() if name != key})


def _bad_arguments(dialect: Dialect, done: Completion, streamed: bool) -> Rendered:
    """Return the reply with half of each tool call's arguments: where they are an object, a text in its place."""
    if dialect.STYLE == gemini.STYLE:
        return Rendered(200, gemini.bad_call(done, streamed=streamed))
    cut = replace(done, reply=Reply(done.reply.content, _halves(done.reply.tool_calls)))
    if streamed:
        return rendered(dialect, cut, streamed=True)
    value: dict[str, Any] = msgspec.json.decode(dialect.render(done))
    calls = iter(cut.reply.tool_calls)
    for block in value.get("content", ()):
        if block["type"] == "tool_use":
            block["input"] = next(calls)["function"]["arguments"]
    for item in value.get("output", ()):
        if item["type"] == "function_call":
            item["arguments"] = next(calls)["function"]["arguments"]
    for choice in value.get("choices", ()):
        choice["message"]["tool_calls"] = list(calls)
    return Rendered(200, msgspec.json.encode(value))


def _halves(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Return *calls* with the first half of their arguments: the beginning of a JSON object is none."""
    return tuple(ToolCall(id=one["id"], type=one["type"], function=_half(one["function"])) for one in calls)


def _half(function: ToolFunction) -> ToolFunction:
    text = function["arguments"]
    return ToolFunction(name=function["name"], arguments=text[: len(text) // 2])
