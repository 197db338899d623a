"""The client of the model endpoint: one chat completion at a time, as a whole or streamed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http.client import HTTPResponse
from pathlib import Path
from typing import ClassVar

from chaos.targets.reference import release
from chaos.targets.reference.agent import Completion, Request
from chaos.targets.reference.stream import Stream, checked
from chaos.targets.reference.wire import TIMEOUT_SECONDS, Endpoint, Garbled, error_code
from chaos.world import Message, ToolCall, ToolFunction


class ModelError(Exception):
    """The endpoint refused the request."""


class PromptTooLong(ModelError):
    """The prompt does not fit into the model's context window."""


class Model:
    """The model endpoint that *env* names as the OpenAI SDK's variables do.

    What is not whole or makes no sense is never an answer: it is asked for again.

    Args:
        stream: whether to have replies streamed.
        timeout: seconds without a byte after which a request has failed.
        waits: file that remembers a Retry-After over a crash.
    """

    endpoint: ClassVar[type[Endpoint]] = Endpoint

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        stream: bool = False,
        timeout: float = TIMEOUT_SECONDS,
        waits: Path | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {env.get('OPENAI_API_KEY', '')}"}
        self._endpoint = self.endpoint(env["OPENAI_BASE_URL"], headers, timeout, waits)
        self._more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}

    def ask(self, request: Request, again: Callable[[], None] = lambda: None) -> Completion:
        """Return the model's reply to *request*; *again* is called before each further try (see `Endpoint.ask`)."""
        accounts = request["metadata"]
        headers = {"x-chaos-budget": accounts["budget_steps"], "x-chaos-budget-tokens": accounts["budget_tokens"]}
        headers |= release.headers()
        body = json.dumps({**request, **self._more}).encode()
        return self._endpoint.ask("/chat/completions", body, headers, self._read, again=again)

    def whole(self, stream: Stream) -> Completion:
        """Return the reply of a *stream* that has ended; one that has not come to its end is none."""
        if not stream.ended:
            raise Garbled("the stream ended before the reply did")
        return stream.completion()

    def close(self) -> None:
        """Close the connection."""
        self._endpoint.close()

    def _read(self, answer: HTTPResponse) -> Completion:
        if answer.status != 200:
            body = answer.read()
            kind = PromptTooLong if error_code(body) == "context_length_exceeded" else ModelError
            raise kind(f"the model endpoint answered {answer.status}: {body[:500]!r}")
        if not self._more:
            return parse(answer.read())
        stream = Stream()
        for line in answer:
            stream.feed(line)
        return self.whole(stream)


def parse(body: bytes) -> Completion:
    """Return the reply in *body*, reduced to what goes back to the endpoint in the next request."""
    try:
        reply = json.loads(body)
        said = reply["choices"][0]["message"]
        message = Message(role="assistant", content=_text(said.get("content")))
        if said.get("tool_calls"):
            message["tool_calls"] = [_call(call) for call in said["tool_calls"]]
        return Completion(message, int(reply["usage"]["total_tokens"]))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise Garbled(f"not a chat completion ({type(error).__name__}: {error}): {body[:200]!r}") from error


def _call(call: dict[str, object]) -> ToolCall:
    function = call["function"]
    if not isinstance(function, dict):
        raise TypeError("a tool call without a function")
    named = ToolFunction(name=_text(function["name"]), arguments=checked(_text(function["arguments"])))
    return ToolCall(id=_text(call["id"]), type="function", function=named)


def _text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r}")
    return value
