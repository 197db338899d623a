"""Everything outside the sandbox, on a real socket: the model endpoint, the services, the effects ledger.

Replies are a function of the conversation's content alone, never of a counter or a queue: an agent that was
rolled back asks again and must get the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict, runtime_checkable


class ToolFunction(TypedDict):
    """Name of the tool and its arguments as a JSON text, as OpenAI's chat completions carry them."""

    name: str
    arguments: str


class ToolCall(TypedDict):
    id: str
    type: str  # "function"
    function: ToolFunction


class Message(TypedDict, total=False):
    """One message of a conversation in OpenAI's chat completions form."""

    role: str  # "system" | "user" | "assistant" | "tool"
    content: str | None
    tool_calls: list[ToolCall]
    tool_call_id: str


@dataclass(frozen=True)
class Reply:
    """What the model says next: text, and tool calls in OpenAI's form."""

    content: str
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What a service answers: *status* and a JSON value. *effect*: whether it changed the outside world."""

    status: int
    body: Mapping[str, Any]
    effect: bool = False
    off_goal: bool = False


class Brain(Protocol):
    """The scripted model and the services of one workload: pure functions of what they are asked."""

    def reply(self, messages: Sequence[Message]) -> Reply:
        """Return the model's next message. A conversation that it cannot place raises ValueError with the reason."""
        ...

    def goal(self, messages: Sequence[Message]) -> str:
        """Return the goal as it stands in the conversation, "" if it is gone."""
        ...

    def serve(self, service: str, operation: str, payload: Mapping[str, Any]) -> Answer:
        """Answer a call of a service. The world deduplicates by idempotency key and keeps the ledger."""
        ...


@runtime_checkable
class Placing(Protocol):
    """What a brain has besides where a prompt need not hold the whole conversation: it tells the turn itself."""

    def turn(self, messages: Sequence[Message]) -> int:
        """Return how many of the model's turns came before this prompt; any prompt must have an answer."""
        ...


@runtime_checkable
class Masking(Protocol):
    """What a brain has besides where prompts that mean the same may differ, as in times and ids."""

    def steady(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return *messages* with what may differ masked: so they are counted, journalled and compared."""
        ...


def steady_of(brain: Brain, messages: Sequence[Message]) -> Sequence[Message]:
    """Return *messages* as prompts of *brain* are compared."""
    return brain.steady(messages) if isinstance(brain, Masking) else messages


def turn_of(brain: Brain, messages: Sequence[Message]) -> int:
    """Return how many of the model's turns came before the prompt *messages*: it shows them all, or *brain* knows."""
    if isinstance(brain, Placing):
        return brain.turn(messages)
    return sum(message["role"] == "assistant" for message in messages)
