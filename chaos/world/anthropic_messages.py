"""Anthropic's messages on the wire, translated from and to the conversation form that the brain reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Literal

import msgspec

from chaos.world import Message, ToolCall, ToolFunction
from chaos.world.heard import Reader
from chaos.world.openai_chat import Completion, Malformed, ModelRequest, decode, pieces
from chaos.world.openai_chat import unpaired as _unpaired
from chaos.world.tokens import canonical

STYLE = "anthropic"
REQUEST_ID = "request-id"  # the header in which Anthropic names a request
PROMPT = "messages"  # the field of a request that holds the prompt

UNANSWERED = (
    "messages: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}. "
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
)
ORPHANED = (
    "messages: unexpected `tool_use_id` found in `tool_result` blocks: {ids}. "
    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
)
ERROR_KINDS = {
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class _Text(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _ToolUse(msgspec.Struct, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]


class _ToolResult(msgspec.Struct, tag_field="type", tag="tool_result"):
    tool_use_id: str
    content: str | list[_Text] | None = None


class _Thinking(msgspec.Struct, tag_field="type", tag="thinking"):
    """What the model thought: it is handed back, and nobody said it."""


class _HiddenThinking(msgspec.Struct, tag_field="type", tag="redacted_thinking"):
    """The same, unreadable."""


_Block = _Text | _ToolUse | _ToolResult | _Thinking | _HiddenThinking


class _Incoming(msgspec.Struct):
    role: Literal["user", "assistant"]
    content: str | list[_Block]


class _Request(msgspec.Struct):
    model: str
    max_tokens: int
    messages: list[_Incoming]
    system: str | list[_Text] | None = None
    stream: bool | None = None
    tools: msgspec.Raw = msgspec.Raw(b"")


class _Envelope(msgspec.Struct):
    """A request whose messages are not read yet."""

    model: str
    max_tokens: int
    messages: list[msgspec.Raw]
    system: str | list[_Text] | None = None
    stream: bool | None = None
    tools: msgspec.Raw = msgspec.Raw(b"")


_decoder = msgspec.json.Decoder(_Request)
_envelopes = msgspec.json.Decoder(_Envelope)
_incoming = msgspec.json.Decoder(_Incoming)


def parse(body: bytes) -> ModelRequest:
    """Return the request in *body*; raise Malformed with the reason if it is none."""
    request = decode(_envelopes, body)
    if not request.messages:
        raise Malformed("messages: at least one message is required")
    system = _text(request.system)
    messages = [Message(role="system", content=system)] if system else []
    try:
        messages += chain.from_iterable(_reader.messages(request.messages))
    except msgspec.MsgspecError:
        decode(_decoder, body)  # says where it is wrong
        raise
    # usage is always part of the stream here, so include_usage has no meaning
    return ModelRequest(
        model=request.model, messages=tuple(messages), stream=bool(request.stream), tools=bytes(request.tools)
    )


def _read(index: int, raw: msgspec.Raw) -> list[Message]:
    """Return what one message on the wire is here."""
    incoming = _incoming.decode(raw)
    return list(_assistant(index, incoming) if incoming.role == "assistant" else _user(index, incoming))


_reader = Reader(_read)


def _text(content: str | list[_Text] | None) -> str:
    return content if isinstance(content, str) else "".join(block.text for block in content or ())


def _blocks(incoming: _Incoming) -> Sequence[_Block]:
    return [_Text(incoming.content)] if isinstance(incoming.content, str) else incoming.content


def _assistant(index: int, incoming: _Incoming) -> Iterator[Message]:
    """One message: text and calls of a turn belong together."""
    message, text, calls = Message(role="assistant"), "", list[ToolCall]()
    for block in _blocks(incoming):
        if isinstance(block, _Text):
            text += block.text
        elif isinstance(block, _ToolUse):
            function = ToolFunction(name=block.name, arguments=canonical(block.input).decode())
            calls.append(ToolCall(id=block.id, type="function", function=function))
        elif isinstance(block, _ToolResult):
            raise Malformed(f"messages.{index}: `tool_result` blocks can only be in `user` messages")
    if text:
        message["content"] = text
    if calls:
        message["tool_calls"] = calls
    yield message


def _user(index: int, incoming: _Incoming) -> Iterator[Message]:
    """One message for each result and one for the text around them, in the order of the blocks."""
    text = ""
    for block in _blocks(incoming):
        if isinstance(block, _Text):
            text += block.text
        elif isinstance(block, _ToolResult):
            if text:
                yield Message(role="user", content=text)
                text = ""
            result = Message(role="tool", tool_call_id=block.tool_use_id)
            if content := _text(block.content):
                result["content"] = content
            yield result
        elif isinstance(block, _ToolUse):
            raise Malformed(f"messages.{index}: `tool_use` blocks can only be in `assistant` messages")
    if text or not incoming.content:
        yield Message(role="user", content=text)


def unpaired(messages: Sequence[Message]) -> str:
    """Return why the conversation is refused for its tool calls, in Anthropic's words; "" if it is not."""
    return _unpaired(messages, UNANSWERED, ORPHANED)


def render(done: Completion) -> bytes:
    """Return the body of a reply that is not streamed."""
    content: list[dict[str, Any]] = [{"type": "text", "text": done.reply.content}] if done.reply.content else []
    for call in done.reply.tool_calls:
        arguments = msgspec.json.decode(call["function"]["arguments"])
        content.append({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": arguments})
    return msgspec.json.encode(_message(done, content, _stop_reason(done), done.tokens_out))


def events(done: Completion) -> Iterator[bytes]:
    """Return the server-sent events of a streamed reply, one by one."""
    yield _event("message_start", message=_message(done, [], None, 0))
    index = 0
    if done.reply.content:
        deltas = ({"type": "text_delta", "text": piece} for piece in pieces(done.reply.content))
        yield from _block(index, {"type": "text", "text": ""}, deltas)
        index += 1
    for call in done.reply.tool_calls:
        block = {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": {}}
        arguments = pieces(call["function"]["arguments"])
        yield from _block(index, block, ({"type": "input_json_delta", "partial_json": piece} for piece in arguments))
        index += 1
    ending = {"stop_reason": _stop_reason(done), "stop_sequence": None}
    yield _event("message_delta", delta=ending, usage={"output_tokens": done.tokens_out})
    yield _event("message_stop")


def closing(done: Completion) -> int:
    """Return how many of the last events tell that the message is whole: its stop reason, and its end."""
    return 2


def error(status: int, message: str, kind: str = "") -> bytes:
    """Return the body of an error; *kind* is its type, by default the one that goes with *status*."""
    kind = kind or ERROR_KINDS.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})


def _block(index: int, block: dict[str, Any], deltas: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    yield _event("content_block_start", index=index, content_block=block)
    for delta in deltas:
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _message(done: Completion, content: list[dict[str, Any]], stop: str | None, tokens_out: int) -> dict[str, Any]:
    return {
        "id": f"msg_{done.prompt}",
        "type": "message",
        "role": "assistant",
        "model": done.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": done.tokens_in, "output_tokens": tokens_out},
    }


def _stop_reason(done: Completion) -> str:
    return "tool_use" if done.reply.tool_calls else "end_turn"


def _event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: ".encode() + msgspec.json.encode({"type": kind} | data) + b"\n\n"
