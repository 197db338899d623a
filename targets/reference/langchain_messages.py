"""LangChain's messages read as the agent's state, and the model's replies written as LangChain's messages.

The state is a function of the messages: the budget and the session are told by them, and are not lost without them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import cast

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call as langchain_call

from chaos.targets.reference.agent import Completion, Digest, State, fold, remembered
from chaos.world import Message, ToolCall, ToolFunction


class Conversation:
    """Reads messages as the agent's state, in time proportional to what is new since the last call."""

    def __init__(self) -> None:
        self.digest = Digest()
        self._state: State | None = None
        self._count = 0
        self._last: BaseMessage | None = None

    def state(self, messages: Sequence[BaseMessage]) -> State:
        """Return the state after the complete steps in *messages*: a last call without its result is not in it."""
        # Trust what was read before only as long as it ends in the very same object.
        if self._state is None or len(messages) < self._count or messages[self._count - 1] is not self._last:
            self._count = next((i for i, one in enumerate(messages) if isinstance(one, AIMessage)), len(messages))
            self._state = remembered([to_wire(one) for one in messages[: self._count]])
        turns = list(_turns(messages[self._count :]))
        for turn in turns:
            said = cast(AIMessage, turn[0])
            if turn is turns[-1] and len(turn) - 1 < len(said.tool_calls):
                break
            self._state = after(self._state, said, turn[1:])
            self._count += len(turn)
        self._last = messages[self._count - 1]
        return self._state


def _turns(messages: Sequence[BaseMessage]) -> Iterator[Sequence[BaseMessage]]:
    """Return the messages cut before each of the model's."""
    starts = [i for i, one in enumerate(messages) if isinstance(one, AIMessage)]
    for start, end in zip(starts, [*starts, len(messages)][1:], strict=True):
        yield messages[start:end]


def after(state: State, said: AIMessage, answers: Sequence[BaseMessage]) -> State:
    """Return the state after one turn. Where a message was lost, the rest stands as it is, for the model to see."""
    reply = Completion(to_wire(said), said.usage_metadata["total_tokens"] if said.usage_metadata else 0)
    wanted = [call["id"] for call in reply.message.get("tool_calls", [])]
    if [one.tool_call_id for one in answers if isinstance(one, ToolMessage)] == wanted:
        return fold(state, reply, [str(one.content) for one in answers])
    return State(
        goal=state["goal"],
        messages=[*state["messages"], reply.message, *(to_wire(one) for one in answers)],
        steps=state["steps"] + 1,
        tokens=state["tokens"] + reply.tokens,
        session=state["session"],
    )


def to_wire(message: BaseMessage) -> Message:
    """Return *message* as chat completions have it; arguments are written with sorted keys."""
    text = str(message.content)
    if isinstance(message, ToolMessage):
        return Message(role="tool", tool_call_id=message.tool_call_id, content=text)
    if not isinstance(message, AIMessage):
        return Message(role="system" if isinstance(message, SystemMessage) else "user", content=text)
    reply = Message(role="assistant", content=text)
    if message.tool_calls:
        reply["tool_calls"] = [_wire_call(call["id"], call["name"], call["args"]) for call in message.tool_calls]
    return reply


def _wire_call(call_id: str | None, name: str, given: object) -> ToolCall:
    function = ToolFunction(name=name, arguments=json.dumps(given, sort_keys=True))
    return ToolCall(id=call_id or "", type="function", function=function)


def from_wire(reply: Completion, message_id: str) -> AIMessage:
    """Return the model's *reply* as LangChain has it. Its client keeps the sum of the tokens, so that is all said."""
    calls = [(call["id"], call["function"]) for call in reply.message.get("tool_calls", [])]
    return AIMessage(
        content=reply.message.get("content") or "",
        id=message_id,
        tool_calls=[langchain_call(id=i, name=f["name"], args=json.loads(f["arguments"])) for i, f in calls],
        usage_metadata=UsageMetadata(input_tokens=0, output_tokens=0, total_tokens=reply.tokens),
    )
