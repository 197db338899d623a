"""The client of the model endpoint: one chat completion at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping

from chaos.targets.reference.agent import Completion, Request
from chaos.targets.reference.wire import Endpoint
from chaos.world import Message, ToolCall, ToolFunction


class ModelError(Exception):
    """The endpoint refused the request, or its reply makes no sense."""


class Model:
    """The model endpoint that *env* names as the OpenAI SDK's variables do."""

    def __init__(self, env: Mapping[str, str]) -> None:
        headers = {"Authorization": f"Bearer {env.get('OPENAI_API_KEY', '')}"}
        self._endpoint = Endpoint(env["OPENAI_BASE_URL"], headers)

    def ask(self, request: Request) -> Completion:
        """Return the model's reply to *request*."""
        headers = {"x-chaos-budget": request["metadata"]["budget_steps"]}
        response = self._endpoint.post("/chat/completions", json.dumps(request).encode(), headers)
        if response.status != 200:
            raise ModelError(f"the model endpoint answered {response.status}: {response.body[:500]!r}")
        return parse(response.body)

    def close(self) -> None:
        """Close the connection."""
        self._endpoint.close()


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
        raise ModelError(f"not a chat completion ({type(error).__name__}: {error}): {body[:200]!r}") from error


def _call(call: dict[str, object]) -> ToolCall:
    function = call["function"]
    if not isinstance(function, dict):
        raise TypeError("a tool call without a function")
    named = ToolFunction(name=_text(function["name"]), arguments=_text(function["arguments"]))
    return ToolCall(id=_text(call["id"]), type="function", function=named)


def _text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r}")
    return value
