"""What one phase of the work hands to the next: a typed value, and the one message of a conversation that carries it.

A phase begins with the goal and this message instead of the messages of the phases before it. What is not in here is
not known any more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypedDict, cast

from chaos.world import Message, ToolCall

PREFIX = "Hand-off: "
"""How the message begins. The user sends it, as the goal: the model did not say it in this conversation."""

DECIDING = frozenset({"cd", "set_environment", "write_file", "install_package", "start_service", "commit"})
"""Tools whose call is a decision worth knowing; that it was carried out is all that their result says."""
ANSWERING = frozenset({"call_service", "run", "scratch", "query_service"})
"""Tools whose result is data. A file that was read is still there to be read."""
PASSING = "search"
"""The service whose answers are read once: what they led to is among the results after them."""


class Handoff(TypedDict):
    """What is known when a phase ends. *turns* counts the model's turns so far, *key_data* has results by call id."""

    turns: int
    summary: str
    decisions: list[str]
    key_data: dict[str, str]
    errors: list[str]


def made(phase: int, turns: int, messages: Sequence[Message], error: str) -> Handoff:
    """Return what the conversation *messages* of *phase* hands on after *turns*, what it was handed itself included.

    Args:
        error: how the result of a call that failed begins.
    """
    before = found(messages)
    decisions, errors = (list(before["decisions"]), list(before["errors"])) if before else ([], [])
    key_data = dict(before["key_data"]) if before else {}
    results = {
        message["tool_call_id"]: message.get("content") or "" for message in messages if message["role"] == "tool"
    }
    calls = [call for message in messages for call in message.get("tool_calls", [])]
    for call in calls:
        name, given = call["function"]["name"], json.loads(call["function"]["arguments"])
        result = results.get(call["id"], "")
        if result.startswith(error):
            errors.append(f"{call['id']} ({name}): {result}")
        elif name in DECIDING:
            decisions.append(_decision(call))
        elif name in ANSWERING and given.get("service") != PASSING:
            key_data[call["id"]] = result
    summary = f"Phase {phase} is over after {turns} turns; it made {len(calls)} calls."
    return Handoff(turns=turns, summary=summary, decisions=decisions, key_data=key_data, errors=errors)


def summary_only(handoff: Handoff) -> Handoff:
    """Return *handoff* without all that a summary leaves out."""
    return Handoff(turns=handoff["turns"], summary=handoff["summary"], decisions=[], key_data={}, errors=[])


def message(handoff: Handoff) -> Message:
    """Return the message that carries *handoff*."""
    return Message(role="user", content=PREFIX + json.dumps(handoff, sort_keys=True, separators=(",", ":")))


def found(messages: Sequence[Message]) -> Handoff | None:
    """Return the hand-off in the conversation, None if it has none; raise ValueError if it makes no sense."""
    for one in messages:
        text = one.get("content") or ""
        if one["role"] == "user" and text.startswith(PREFIX):
            return _checked(json.loads(text.removeprefix(PREFIX)))
    return None


def turns_before(messages: Sequence[Message]) -> int:
    """Return the turns that were over when the conversation began."""
    handoff = found(messages)
    return handoff["turns"] if handoff else 0


def _checked(given: object) -> Handoff:
    kinds = {"turns": int, "summary": str, "decisions": list, "key_data": dict, "errors": list}
    if not isinstance(given, dict) or any(not isinstance(given.get(name), kind) for name, kind in kinds.items()):
        raise ValueError("a hand-off must have turns, summary, decisions, key_data and errors")
    if not all(isinstance(text, str) for text in given["key_data"].values()):
        raise ValueError("the key data of a hand-off must be texts")
    return cast(Handoff, given)


def _decision(call: ToolCall) -> str:
    """Return what *call* decided, in a line: its tool and the names in its arguments, not their contents."""
    given = json.loads(call["function"]["arguments"])
    names = given.get("path") or given.get("wheel") or given.get("command") or sorted(given.get("variables", {}))
    return f"{call['function']['name']} {names if isinstance(names, str) else ' '.join(names)}"
