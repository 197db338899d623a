"""OpenAI's Responses API on the wire, translated from and to the conversation form that the brain reads.

Nothing is stored here: a request carries its whole conversation, as with `store: false`. What refers to a response or
an item that the provider would have kept (`previous_response_id`, `conversation`, `item_reference`) is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Literal

import msgspec

from chaos.world import Message, ToolCall, ToolFunction, openai_chat
from chaos.world.heard import Reader
from chaos.world.openai_chat import Completion, Malformed, ModelRequest, account, decode, pieces

STYLE, REQUEST_ID, error = openai_chat.STYLE, openai_chat.REQUEST_ID, openai_chat.error  # the same provider
PROMPT = "input"  # the field of a request that holds the prompt

UNANSWERED = "No tool output found for function call {id}."
ORPHANED = "No tool call found for function call output with call_id {id}."
NOT_STORED = "{what} not found: this endpoint stores nothing. Send the whole conversation as 'input' (store=false)."


class _Part(msgspec.Struct):
    type: str
    text: str | None = None


class _Said(msgspec.Struct):
    """A message; its type may be left out."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[_Part]


class _Call(msgspec.Struct, tag_field="type", tag="function_call"):
    call_id: str
    name: str
    arguments: str


class _Output(msgspec.Struct, tag_field="type", tag="function_call_output"):
    call_id: str
    output: str | list[_Part]


class _Reasoning(msgspec.Struct, tag_field="type", tag="reasoning"):
    """What the model thought: it is handed back, and nobody said it."""


class _Reference(msgspec.Struct, tag_field="type", tag="item_reference"):
    id: str


class _Kind(msgspec.Struct):
    type: str = "message"


class _Request(msgspec.Struct):
    model: str
    input: str | list[msgspec.Raw] = ""
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    background: bool | None = None
    stream: bool | None = None
    metadata: dict[str, str] | None = None
    tools: msgspec.Raw = msgspec.Raw(b"")


_requests = msgspec.json.Decoder(_Request)
_kinds = msgspec.json.Decoder(_Kind)
_said = msgspec.json.Decoder(_Said)
_items = msgspec.json.Decoder(_Call | _Output | _Reasoning | _Reference)


def parse(body: bytes) -> ModelRequest:
    """Return the request in *body*; raise Malformed with the reason if it is none, or refers to what is not there."""
    request = decode(_requests, body)
    if request.previous_response_id:
        raise Malformed(NOT_STORED.format(what=f"Previous response with id '{request.previous_response_id}'"))
    if request.conversation:
        raise Malformed(NOT_STORED.format(what="Conversation"))
    if request.background:
        raise Malformed("Invalid 'background': this endpoint answers at once (got true).")
    messages = [Message(role="system", content=request.instructions)] if request.instructions else []
    if isinstance(request.input, list):
        messages += _turns(_reader.messages(request.input))
    elif request.input:
        messages.append(Message(role="user", content=request.input))
    if not request.input or not messages:
        raise Malformed("Invalid 'input': empty. Expected a text, or an array with at least one message.")
    # usage is always part of the stream here, so include_usage has no meaning
    return ModelRequest(
        model=request.model,
        messages=tuple(messages),
        stream=bool(request.stream),
        budget=account(request.metadata or {}, openai_chat.BUDGET_KEY),
        budget_tokens=account(request.metadata or {}, openai_chat.TOKENS_KEY),
        tools=bytes(request.tools),
    )


def _read(index: int, raw: msgspec.Raw) -> Message | None:
    """Return what one item on the wire is here, None if nobody said it."""
    try:
        item = _said.decode(raw) if _kinds.decode(raw).type == "message" else _items.decode(raw)
    except msgspec.MsgspecError as wrong:
        raise Malformed(f"Invalid 'input[{index}]': {wrong}") from None
    match item:
        case _Call():
            function = ToolFunction(name=item.name, arguments=item.arguments)
            return Message(role="assistant", tool_calls=[ToolCall(id=item.call_id, type="function", function=function)])
        case _Output():
            message = Message(role="tool", tool_call_id=item.call_id)
            text = _text(index, item.output)
        case _Said():
            message = Message(role="system" if item.role == "developer" else item.role)
            text = _text(index, item.content)
        case _Reference():
            raise Malformed(NOT_STORED.format(what=f"Item with id '{item.id}'"))
        case _:
            return None
    if text:
        message["content"] = text
    return message


_reader = Reader(_read)


def _text(index: int, content: str | list[_Part]) -> str:
    if isinstance(content, str):
        return content
    for part in content:
        if part.type not in ("input_text", "output_text") or part.text is None:
            raise Malformed(f"Invalid 'input[{index}].content': this model reads text only (got {part.type!r}).")
    return "".join(part.text or "" for part in content)


def _turns(items: Iterable[Message | None]) -> Iterator[Message]:
    """Yield messages: what the model said and what it called, one after the other, are one turn of it.

    Some models call first and then say something, so a text after calls belongs to them; one after a text does not.
    """
    turn: Message | None = None  # of the model, as far as it is read
    for item in filter(None, items):
        if turn and item["role"] == "assistant" and not ("content" in turn and "content" in item):
            turn = _joined(turn, item)
            continue
        if turn:
            yield turn
        turn = item if item["role"] == "assistant" else None
        if not turn:
            yield item
    if turn:
        yield turn


def _joined(one: Message, other: Message) -> Message:
    """Return one message of what two of the model hold, of which at most one says something."""
    joined = Message(role="assistant")
    if content := one.get("content") or other.get("content"):
        joined["content"] = content
    joined["tool_calls"] = [*one.get("tool_calls", ()), *other.get("tool_calls", ())]
    return joined


def unpaired(messages: Sequence[Message]) -> str:
    """Return why the conversation is refused for its tool calls, in OpenAI's words; "" if it is not.

    Here a result may come at any place after its call.
    """
    open_calls: dict[str, None] = {}
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return ORPHANED.format(id=message["tool_call_id"])
            del open_calls[message["tool_call_id"]]
        open_calls.update((call["id"], None) for call in message.get("tool_calls", ()))
    return UNANSWERED.format(id=next(iter(open_calls))) if open_calls else ""


def render(done: Completion) -> bytes:
    """Return the body of a reply that is not streamed."""
    return msgspec.json.encode(_response(done, "completed", _output(done)))


def events(done: Completion) -> Iterator[bytes]:
    """Return the server-sent events of a streamed reply, one by one."""
    number = count()

    def event(kind: str, **data: Any) -> bytes:
        told = msgspec.json.encode({"type": f"response.{kind}", "sequence_number": next(number)} | data)
        return f"event: response.{kind}\ndata: ".encode() + told + b"\n\n"

    yield event("created", response=_response(done, "in_progress", []))
    yield event("in_progress", response=_response(done, "in_progress", []))
    for place, item in enumerate(_output(done)):
        at = {"item_id": item["id"], "output_index": place}
        begun: dict[str, Any] = {"content": []} if item["type"] == "message" else {"arguments": ""}
        yield event("output_item.added", output_index=place, item=item | begun | {"status": "in_progress"})
        if item["type"] == "message":
            at["content_index"] = 0
            part = item["content"][0]
            yield event("content_part.added", **at, part=part | {"text": ""})
            for piece in pieces(part["text"]):
                yield event("output_text.delta", **at, delta=piece, logprobs=[])
            yield event("output_text.done", **at, text=part["text"], logprobs=[])
            yield event("content_part.done", **at, part=part)
        else:
            for piece in pieces(item["arguments"]):
                yield event("function_call_arguments.delta", **at, delta=piece)
            yield event("function_call_arguments.done", **at, name=item["name"], arguments=item["arguments"])
        yield event("output_item.done", output_index=place, item=item)
    yield event("completed", response=_response(done, "completed", _output(done)))


def closing(done: Completion) -> int:
    """Return how many of the last events tell that the reply is whole: `response.completed`."""
    return 1


def _output(done: Completion) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if done.reply.content or not done.reply.tool_calls:
        part = {"type": "output_text", "text": done.reply.content, "annotations": [], "logprobs": []}
        head = {"type": "message", "id": f"msg_{done.prompt}", "status": "completed", "role": "assistant"}
        items.append(head | {"content": [part]})
    for call in done.reply.tool_calls:
        head = {"type": "function_call", "id": f"fc_{call['id']}", "call_id": call["id"], "status": "completed"}
        items.append(head | call["function"])
    return items


def _response(done: Completion, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    whole = status == "completed"
    return {
        "id": f"resp_{done.prompt}",
        "object": "response",
        "created_at": openai_chat.CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": done.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": _usage(done) if whole else None,
    }


def _usage(done: Completion) -> dict[str, Any]:
    return {
        "input_tokens": done.tokens_in,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": done.tokens_out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": done.tokens_in + done.tokens_out,
    }
