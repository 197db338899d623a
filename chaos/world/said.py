"""What a provider's reply says, whole or streamed, read as the prompt would be that shows it: in one form for all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from chaos.world import Message, Reply, ToolCall, anthropic_messages, gemini, openai_chat, openai_responses
from chaos.world.openai_chat import Dialect, Malformed

Json = dict[str, Any]
_LINE = re.compile(r"\r\n|\n|\r")  # the line ends of server-sent events; JSON has others in its texts


def said(dialect: Dialect, body: Any, events: Sequence[str] = ()) -> Reply | None:
    """Return what the model said in a JSON *body*, or in the server-sent *events* of a stream.

    None if it is no such reply, or a stream that broke off. What the model thought is left out, and so is what only
    the provider needs (finish reasons, signatures, usage).
    """
    whole, prompt = _FORMS[dialect.STYLE, dialect.PROMPT]
    try:
        reply = whole(_data(events)) if events else body
        if reply is None:
            return None
        return _joined(dialect.parse(msgspec.json.encode(prompt(reply))).messages)
    except (Malformed, msgspec.MsgspecError, LookupError, TypeError, AttributeError):
        return None  # an error's body, a page of a gateway, half an event


def _joined(messages: Sequence[Message]) -> Reply | None:
    """Return what *messages* of the model say: those of one reply belong together."""
    if any(message["role"] != "assistant" for message in messages):
        return None
    calls = [call for message in messages for call in message.get("tool_calls", ())]
    return Reply("".join(message.get("content") or "" for message in messages), tuple(calls))


def _data(events: Sequence[str]) -> Iterator[Any]:
    """Yield the JSON of *events*."""
    for event in events:
        lines = [line.removeprefix("data:").strip() for line in _LINE.split(event) if line.startswith("data:")]
        if lines and lines != ["[DONE]"]:
            yield msgspec.json.decode("\n".join(lines))


def _chat(chunks: Iterable[Json]) -> Json | None:
    """Return the body that *chunks* of a chat completion add up to."""
    content, calls, finished = "", dict[int, ToolCall](), False
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        delta = choice.get("delta") or {}
        content += delta.get("content") or ""
        for part in delta.get("tool_calls") or ():
            empty = ToolCall(id="", type="function", function={"name": "", "arguments": ""})
            call = calls.setdefault(part.get("index", 0), empty)
            call["id"] = part.get("id") or call["id"]
            function = part.get("function") or {}
            call["function"]["name"] += function.get("name") or ""
            call["function"]["arguments"] += function.get("arguments") or ""
        finished = finished or bool(choice.get("finish_reason"))
    message = {"content": content, "tool_calls": [calls[index] for index in sorted(calls)]}
    return {"choices": [{"message": message}]} if finished else None


def _response(events: Iterable[Json]) -> Json | None:
    """Return the response that the last of *events* holds."""
    return next((event["response"] for event in events if event["type"] == "response.completed"), None)


def _message(events: Iterable[Json]) -> Json | None:
    """Return the message that *events* of Anthropic add up to."""
    blocks: list[Json] = []
    for event in events:
        match event["type"]:
            case "content_block_start":
                blocks.append({**event["content_block"], "json": ""})
            case "content_block_delta":
                delta = event["delta"]
                if delta["type"] == "text_delta":
                    blocks[event["index"]]["text"] += delta["text"]
                elif delta["type"] == "input_json_delta":
                    blocks[event["index"]]["json"] += delta["partial_json"]
            case "message_stop":
                for block in blocks:
                    if text := block.pop("json"):
                        block["input"] = msgspec.json.decode(text)
                return {"content": blocks}
    return None


def _candidate(chunks: Iterable[Json]) -> Json | None:
    """Return the body that *chunks* of Gemini add up to."""
    parts, finished = list[Json](), False
    for candidate in (candidate for chunk in chunks for candidate in chunk.get("candidates", ())):
        parts += (candidate.get("content") or {}).get("parts", ())
        finished = finished or bool(candidate.get("finishReason"))
    return {"candidates": [{"content": {"parts": parts}}]} if finished else None


def _from_openai(body: Json) -> Json:
    message = body["choices"][0]["message"]
    kept = {"content": message.get("content"), "tool_calls": message.get("tool_calls")}
    return {"model": "", "messages": [{"role": "assistant"} | kept]}


def _from_anthropic(body: Json) -> Json:
    return {"model": "", "max_tokens": 1, "messages": [{"role": "assistant", "content": body["content"]}]}


_Whole = Callable[[Iterable[Json]], Json | None]
_FORMS: Mapping[tuple[str, str], tuple[_Whole, Callable[[Json], Json]]] = {
    (openai_chat.STYLE, openai_chat.PROMPT): (_chat, _from_openai),
    (openai_responses.STYLE, openai_responses.PROMPT): (
        _response,
        lambda body: {"model": "", "input": body["output"]},
    ),
    (anthropic_messages.STYLE, anthropic_messages.PROMPT): (_message, _from_anthropic),
    (gemini.STYLE, gemini.PROMPT): (
        _candidate,
        lambda body: {"contents": [{"role": "model", "parts": body["candidates"][0]["content"].get("parts", [])}]},
    ),
}
"""How the events of a stream add up, and the prompt that shows the reply."""
