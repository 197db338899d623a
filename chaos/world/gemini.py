"""Gemini's generateContent on the wire, translated from and to the conversation form that the brain reads.

The model, and whether its reply is streamed, are in the path (`asked`). Streams are server-sent events, as with
`alt=sse`, which is all that Google's SDKs ask for. Names may be written in both ways that Google takes:
`systemInstruction` and `system_instruction`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Literal, NamedTuple

import msgspec

from chaos.world import Message, ToolCall, ToolFunction
from chaos.world.heard import Reader
from chaos.world.openai_chat import Completion, Malformed, ModelRequest, decode, pieces
from chaos.world.openai_chat import unpaired as _unpaired
from chaos.world.tokens import canonical

STYLE = "gemini"
REQUEST_ID = ""  # Google names none
PROMPT = "contents"  # the field of a request that holds the prompt
PATH = re.compile(r"/v1(?:alpha|beta)?/models/([\w.-]+):(generateContent|streamGenerateContent)")

UNANSWERED = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn. (content {index}; without a response: {ids})"
)
ORPHANED = (
    "Please ensure that function response turn comes immediately after a function call turn. "
    "(content {index} answers {ids})"
)
STATUSES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    504: "DEADLINE_EXCEEDED",
}
OUTPUT_KEYS = ("output", "result")  # under which a function response holds a text: Google's own key, and its SDKs'


class _Call(msgspec.Struct):
    name: str
    args: dict[str, Any] = {}
    id: str = ""


class _Result(msgspec.Struct):
    name: str
    response: dict[str, Any] = {}
    id: str = ""


class _Part(msgspec.Struct):
    text: str | None = None
    thought: bool = False
    call: _Call | None = msgspec.field(default=None, name="functionCall")
    call_: _Call | None = msgspec.field(default=None, name="function_call")
    result: _Result | None = msgspec.field(default=None, name="functionResponse")
    result_: _Result | None = msgspec.field(default=None, name="function_response")
    signature: str | None = msgspec.field(default=None, name="thoughtSignature")
    signature_: str | None = msgspec.field(default=None, name="thought_signature")


class _Content(msgspec.Struct):
    parts: list[_Part] = []
    role: Literal["user", "model", "function"] | None = None


class _Request(msgspec.Struct):
    contents: list[msgspec.Raw]
    system: _Content | None = msgspec.field(default=None, name="systemInstruction")
    system_: _Content | None = msgspec.field(default=None, name="system_instruction")
    tools: msgspec.Raw = msgspec.Raw(b"")


class _Read(NamedTuple):
    """A message, and the name of the function whose result it is: a client need not say which call's."""

    message: Message
    function: str = ""


_requests = msgspec.json.Decoder(_Request)
_contents = msgspec.json.Decoder(_Content)


def is_path(path: str) -> bool:
    """Tell whether *path* is one of this endpoint."""
    return PATH.fullmatch(path) is not None


def asked(path: str, request: ModelRequest) -> ModelRequest:
    """Return *request* with what its *path* says of it, if that is one of this endpoint."""
    found = PATH.fullmatch(path)
    return replace(request, model=found[1], stream=found[2] == "streamGenerateContent") if found else request


def parse(body: bytes) -> ModelRequest:
    """Return the request in *body*, as far as it is there; raise Malformed with the reason if it is none."""
    request = decode(_requests, body)
    if not request.contents:
        raise Malformed("* GenerateContentRequest.contents: contents is not specified")
    instruction = request.system or request.system_
    system = "".join(part.text or "" for part in instruction.parts) if instruction else ""
    messages = [Message(role="system", content=system)] if system else []
    messages += _matched(chain.from_iterable(_reader.messages(request.contents)))
    return ModelRequest(model="", messages=tuple(messages), tools=bytes(request.tools))


def _read(index: int, raw: msgspec.Raw) -> list[_Read]:
    """Return what one content on the wire is here."""
    try:
        content = _contents.decode(raw)
    except msgspec.MsgspecError as wrong:
        raise Malformed(f"Invalid value at 'contents[{index}]': {wrong}") from None
    for part in content.parts:
        known = (part.text, part.call, part.call_, part.result, part.result_, part.signature, part.signature_)
        if not part.thought and all(one is None for one in known):
            raise Malformed(f"Invalid value at 'contents[{index}].parts': this model reads text only")
    return [_model(index, content)] if content.role == "model" else list(_user(index, content))


_reader = Reader(_read)


def _model(index: int, content: _Content) -> _Read:
    """One message: text and calls of a turn belong together. What it thought, nobody said."""
    message, calls = Message(role="assistant"), list[ToolCall]()
    unnamed = Counter[str]()
    for part in content.parts:
        if part.result or part.result_:
            raise Malformed(f"Invalid value at 'contents[{index}].parts': a model gives no function response")
        if call := part.call or part.call_:
            function = ToolFunction(name=call.name, arguments=canonical(call.args).decode())
            calls.append(
                ToolCall(id=call.id or f"{call.name}-{unnamed[call.name]}", type="function", function=function)
            )
            unnamed[call.name] += not call.id
    if text := "".join(part.text or "" for part in content.parts if not part.thought):
        message["content"] = text
    if calls:
        message["tool_calls"] = calls
    return _Read(message)


def _user(index: int, content: _Content) -> Iterator[_Read]:
    """One message for each response and one for the text around them, in the order of the parts."""
    text, said = "", False
    for part in content.parts:
        if part.call or part.call_:
            raise Malformed(f"Invalid value at 'contents[{index}].parts': only a model calls functions")
        if result := part.result or part.result_:
            if text:
                yield _Read(Message(role="user", content=text))
            text, said = "", True
            message = Message(role="tool", tool_call_id=result.id)
            if output := _output(result.response):
                message["content"] = output
            yield _Read(message, result.name)
        text += part.text or ""
    if text or not said:
        yield _Read(Message(role="user", content=text))


def _output(response: Mapping[str, Any]) -> str:
    """Return what a function responded: its text, if that is all there is, else JSON."""
    texts = [value for key, value in response.items() if key in OUTPUT_KEYS and isinstance(value, str)]
    return texts[0] if len(response) == len(texts) == 1 else canonical(response).decode()


def _matched(read: Iterable[_Read]) -> Iterator[Message]:
    """Yield the messages, each response with the id of its call: the first one of that name that has none yet."""
    waiting: list[ToolCall] = []
    for message, function in read:
        if not function:
            waiting = list(message.get("tool_calls", ()))
            yield message
            continue
        named = message["tool_call_id"]
        call = next((one for one in waiting if named == one["id"] or (not named and _name(one) == function)), None)
        if call:
            waiting.remove(call)
        yield message if named else Message(**{**message, "tool_call_id": call["id"] if call else function})


def _name(call: ToolCall) -> str:
    return call["function"]["name"]


def unpaired(messages: Sequence[Message]) -> str:
    """Return why the conversation is refused for its function calls, in Google's words; "" if it is not."""
    return _unpaired(messages, UNANSWERED, ORPHANED)


def render(done: Completion) -> bytes:
    """Return the body of a reply that is not streamed."""
    parts = [{"text": done.reply.content}] if done.reply.content or not done.reply.tool_calls else []
    return msgspec.json.encode(_response(done, [*parts, *_calls(done)], "STOP"))


def events(done: Completion) -> Iterator[bytes]:
    """Return the server-sent events of a streamed reply, one by one: a function call comes whole."""
    for piece in pieces(done.reply.content):
        yield _event(_response(done, [{"text": piece}]))
    for call in _calls(done):
        yield _event(_response(done, [call]))
    yield _event(_response(done, [{"text": ""}], "STOP"))


def closing(done: Completion) -> int:
    """Return how many of the last events tell that the reply is whole: the one with the finish reason."""
    return 1


def bad_call(done: Completion, *, streamed: bool) -> bytes | tuple[bytes, ...]:
    """Return what Google sends when the model wrote a function call that cannot be read: no content, and why."""
    value = _response(done, [], "MALFORMED_FUNCTION_CALL")
    (candidate,) = value["candidates"]
    del candidate["content"]
    name = _name(done.reply.tool_calls[0])
    candidate["finishMessage"] = f"Malformed function call: print(default_api.{name}("
    return (_event(value),) if streamed else msgspec.json.encode(value)


def error(status: int, message: str, details: Sequence[Mapping[str, Any]] = ()) -> bytes:
    """Return the body of an error, with the *details* that Google's error model has for it."""
    named = STATUSES.get(status) or ("UNAVAILABLE" if status >= 500 else "INVALID_ARGUMENT")
    told: dict[str, Any] = {"code": status, "message": message, "status": named}
    return msgspec.json.encode({"error": told | ({"details": list(details)} if details else {})})


def _calls(done: Completion) -> list[dict[str, Any]]:
    made = [
        (call["id"], _name(call), msgspec.json.decode(call["function"]["arguments"])) for call in done.reply.tool_calls
    ]
    return [{"functionCall": {"id": id, "name": name, "args": arguments}} for id, name, arguments in made]


def _response(done: Completion, parts: list[dict[str, Any]], finish: str = "") -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    usage = {"promptTokenCount": done.tokens_in, "totalTokenCount": done.tokens_in}
    if finish:
        usage |= {"candidatesTokenCount": done.tokens_out, "totalTokenCount": done.tokens_in + done.tokens_out}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": done.model, "responseId": done.prompt}


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\r\n\r\n"
