"""A streamed chat completion, put together from its server-sent events."""

from __future__ import annotations

import json
from typing import Any

from chaos.targets.reference.agent import Completion
from chaos.targets.reference.wire import Garbled
from chaos.world import Message, ToolCall, ToolFunction

_DATA = b"data:"
_DONE = b"[DONE]"


class Stream:
    """What has come so far. It is whole only if a finish reason and [DONE] have come too: nothing else says so."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._calls: dict[int, ToolCall] = {}
        self._finish = ""
        self._done = False
        self._tokens = 0

    @property
    def ended(self) -> bool:
        """Whether the model said that this was all."""
        return self._done and bool(self._finish)

    def feed(self, line: bytes) -> None:
        """Take one line of the response; raise Garbled if it makes no sense."""
        if not line.startswith(_DATA):
            return  # the empty line after an event, a comment; a page of HTML never comes to an end
        data = line.removeprefix(_DATA).strip()
        if data == _DONE:
            self._done = True
            return
        try:
            self._take(json.loads(data))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise Garbled(f"not a chunk of a chat completion ({type(error).__name__}): {data[:200]!r}") from error

    def completion(self) -> Completion:
        """Return the reply as far as it has come."""
        message = Message(role="assistant", content="".join(self._content))
        if self._calls:
            message["tool_calls"] = [self._calls[index] for index in sorted(self._calls)]
        return Completion(message, self._tokens)

    def _take(self, chunk: dict[str, Any]) -> None:
        if usage := chunk.get("usage"):
            self._tokens = int(usage["total_tokens"])
        for choice in chunk["choices"]:
            delta = choice["delta"]
            self._content.append(delta.get("content") or "")
            for part in delta.get("tool_calls") or ():
                self._call(part)
            if choice.get("finish_reason"):
                self._finish = choice["finish_reason"]
                for call in self._calls.values():
                    checked(call["function"]["arguments"])

    def _call(self, part: dict[str, Any]) -> None:
        given = part.get("function") or {}
        if "id" in part:
            function = ToolFunction(name=given["name"], arguments=given.get("arguments") or "")
            self._calls[part["index"]] = ToolCall(id=part["id"], type="function", function=function)
        else:
            self._calls[part["index"]]["function"]["arguments"] += given.get("arguments") or ""


def checked(arguments: str) -> str:
    """Return *arguments* of a tool call, which are a JSON object; raise ValueError if they are none."""
    if not isinstance(json.loads(arguments), dict):
        raise ValueError("the arguments of a tool call are no JSON object")
    return arguments
