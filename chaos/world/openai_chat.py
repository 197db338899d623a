"""OpenAI's chat completions on the wire: requests in, replies, streams and errors out.

The conversation inside the world has this form too, so the types that all dialects share live here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from chaos.world import Message, Reply, ToolCall, ToolFunction
from chaos.world.heard import Reader

_T = TypeVar("_T")

STYLE = "openai"
REQUEST_ID = "x-request-id"  # the header in which OpenAI names a request
PROMPT = "messages"  # the field of a request that holds the prompt
CREATED = 1_700_000_000  # a constant: the same prompt gives the same bytes
MODEL = "scripted"  # the one model of GET /v1/models; requests may name any
STREAM_PIECE_CHARS = 24  # about six tokens a chunk: text arrives in several pieces, long text in bearably many
BUDGET_KEY, TOKENS_KEY = "budget_steps", "budget_tokens"

UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: {ids}"
)
ORPHANED = (
    "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls' "
    "(message {index} answers {ids})."
)


class Malformed(ValueError):
    """A request that the provider would refuse unread, with the reason."""


def decode(decoder: msgspec.json.Decoder[_T], body: bytes) -> _T:
    """Return what *body* holds; raise Malformed with the reason if it is not of the decoder's form."""
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Malformed(str(error)) from error


@dataclass(frozen=True)
class ModelRequest:
    """What the world needs to know of a request for a model's reply, whichever dialect it came in."""

    model: str
    messages: tuple[Message, ...]
    stream: bool = False
    include_usage: bool = False
    budget: int | None = None
    budget_tokens: int | None = None
    tools: bytes = b""


@dataclass(frozen=True)
class Completion:
    """A reply with all that its rendering depends on. *prompt*: digest of the conversation that it answers."""

    model: str
    prompt: str
    reply: Reply
    tokens_in: int
    tokens_out: int
    include_usage: bool = False


class Dialect(Protocol):
    """A provider's wire format: the modules `openai_chat`, `openai_responses`, `anthropic_messages` and `gemini`."""

    STYLE: str
    REQUEST_ID: str  # the header in which the provider names a request, "" if there is none
    PROMPT: str  # the field of a request that holds the prompt

    def parse(self, body: bytes) -> ModelRequest: ...
    def unpaired(self, messages: Sequence[Message]) -> str: ...
    def render(self, done: Completion) -> bytes: ...
    def events(self, done: Completion) -> Iterator[bytes]: ...
    def closing(self, done: Completion) -> int: ...
    def error(self, status: int, message: str) -> bytes: ...


class _Part(msgspec.Struct):
    type: str
    text: str | None = None


class _Function(msgspec.Struct):
    name: str
    arguments: str


class _Call(msgspec.Struct):
    id: str
    function: _Function
    type: Literal["function"] = "function"


class _Incoming(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _Request(msgspec.Struct):
    model: str
    messages: list[_Incoming]
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    metadata: dict[str, str] | None = None
    n: int | None = None
    tools: msgspec.Raw = msgspec.Raw(b"")


class _Envelope(msgspec.Struct):
    """A request whose messages are not read yet."""

    model: str
    messages: list[msgspec.Raw]
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    metadata: dict[str, str] | None = None
    n: int | None = None
    tools: msgspec.Raw = msgspec.Raw(b"")


_decoder = msgspec.json.Decoder(_Request)
_envelopes = msgspec.json.Decoder(_Envelope)
_incoming = msgspec.json.Decoder(_Incoming)


def parse(body: bytes) -> ModelRequest:
    """Return the request in *body*; raise Malformed with the reason if it is none."""
    request = decode(_envelopes, body)
    if not request.messages:
        raise Malformed("Invalid 'messages': empty array. Expected an array with minimum length 1.")
    if request.n not in (None, 1):
        raise Malformed(f"Invalid 'n': this endpoint gives one choice (got {request.n}).")
    try:
        messages = _reader.messages(request.messages)
    except msgspec.MsgspecError:
        decode(_decoder, body)  # says where it is wrong
        raise
    return ModelRequest(
        model=request.model,
        messages=tuple(messages),
        stream=bool(request.stream),
        include_usage=bool(request.stream_options and request.stream_options.include_usage),
        tools=bytes(request.tools),
        budget=account(request.metadata or {}, BUDGET_KEY),
        budget_tokens=account(request.metadata or {}, TOKENS_KEY),
    )


def _message(index: int, incoming: _Incoming) -> Message:
    message = Message(role="system" if incoming.role == "developer" else incoming.role)
    if text := _text(index, incoming.content):
        message["content"] = text
    if incoming.tool_calls:
        if incoming.role != "assistant":
            raise Malformed(f"Invalid 'messages[{index}].tool_calls': only an assistant calls tools.")
        message["tool_calls"] = [_call(call) for call in incoming.tool_calls]
    if incoming.role == "tool":
        if not incoming.tool_call_id:
            raise Malformed(f"Missing required parameter: 'messages[{index}].tool_call_id'.")
        message["tool_call_id"] = incoming.tool_call_id
    return message


_reader = Reader(lambda index, raw: _message(index, _incoming.decode(raw)))


def _text(index: int, content: str | list[_Part] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for part in content:
        if part.type != "text" or part.text is None:
            raise Malformed(f"Invalid 'messages[{index}].content': this model reads text only (got {part.type!r}).")
    return "".join(part.text or "" for part in content)


def _call(call: _Call) -> ToolCall:
    function = ToolFunction(name=call.function.name, arguments=call.function.arguments)
    return ToolCall(id=call.id, type=call.type, function=function)


def account(metadata: dict[str, str], key: str) -> int | None:
    """Return what a client accounts for under *key*, None if it does not; raise Malformed if that is no number."""
    return None if key not in metadata else whole(metadata[key], f"metadata.{key}")


def whole(text: str, name: str) -> int:
    """Return *text* as a whole number from 0; raise Malformed that calls it *name*."""
    if not (text.isascii() and text.isdigit()):
        raise Malformed(f"Invalid {name!r}: expected a whole number (got {text[:40]!r}).")
    return int(text)


def unpaired(messages: Sequence[Message], unanswered: str = UNANSWERED, orphaned: str = ORPHANED) -> str:
    """Return why a provider refuses the conversation for its tool calls, "" if each has its result right after it.

    *unanswered* and *orphaned* are the provider's words, with {index} and {ids}.
    """
    waiting: list[str] = []
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            call_id = message["tool_call_id"]
            if call_id not in waiting:
                return orphaned.format(index=index, ids=call_id)
            waiting.remove(call_id)
        elif waiting:
            return unanswered.format(index=index - 1, ids=", ".join(waiting))
        else:
            waiting = [call["id"] for call in message.get("tool_calls", ())]
    return unanswered.format(index=len(messages) - 1, ids=", ".join(waiting)) if waiting else ""


def render(done: Completion) -> bytes:
    """Return the body of a reply that is not streamed."""
    message: dict[str, Any] = {"role": "assistant", "content": done.reply.content or None, "refusal": None}
    if done.reply.tool_calls:
        message["tool_calls"] = list(done.reply.tool_calls)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(done)}
    return msgspec.json.encode(_head(done, "chat.completion") | {"choices": [choice], "usage": _usage(done)})


def events(done: Completion) -> Iterator[bytes]:
    """Return the server-sent events of a streamed reply, one by one."""
    head = _head(done, "chat.completion.chunk")
    unused = {"usage": None} if done.include_usage else {}

    def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return _event(head | {"choices": [choice]} | unused)

    yield chunk({"role": "assistant", "content": None if done.reply.tool_calls else "", "refusal": None})
    for piece in pieces(done.reply.content):
        yield chunk({"content": piece})
    for index, call in enumerate(done.reply.tool_calls):
        named = {"name": call["function"]["name"], "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": named}]})
        for piece in pieces(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, _finish_reason(done))
    if done.include_usage:
        yield _event(head | {"choices": [], "usage": _usage(done)})
    yield b"data: [DONE]\n\n"


def pieces(text: str) -> Iterator[str]:
    """Return *text* cut into the pieces in which it is streamed."""
    return (text[start : start + STREAM_PIECE_CHARS] for start in range(0, len(text), STREAM_PIECE_CHARS))


def models() -> bytes:
    """Return the body of GET /v1/models."""
    model = {"id": MODEL, "object": "model", "created": CREATED, "owned_by": "chaos"}
    return msgspec.json.encode({"object": "list", "data": [model]})


def closing(done: Completion) -> int:
    """Return how many of the last events tell that the reply is whole: finish reason, usage if asked for, [DONE]."""
    return 3 if done.include_usage else 2


def error(status: int, message: str, kind: str = "", code: str | None = None, param: str | None = None) -> bytes:
    """Return the body of an error; *kind* is its type, by default the one that goes with *status*."""
    kind = kind or ("server_error" if status >= 500 else "invalid_request_error")
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": param, "code": code}})


def _head(done: Completion, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{done.prompt}", "object": kind, "created": CREATED, "model": done.model}


def _finish_reason(done: Completion) -> str:
    return "tool_calls" if done.reply.tool_calls else "stop"


def _usage(done: Completion) -> dict[str, int]:
    total = done.tokens_in + done.tokens_out
    return {"prompt_tokens": done.tokens_in, "completion_tokens": done.tokens_out, "total_tokens": total}


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"
