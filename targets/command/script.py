"""A model that says what was written down, and services that answer what was declared."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import ConfigDict, JsonValue

from chaos.errors import did_you_mean
from chaos.world import Answer, Message, Reply, ToolCall, ToolFunction
from chaos.world.routes import KEY, READING, Endpoint
from chaos.world.volatile import Volatile

_STRICT = ConfigDict(extra="forbid", strict=True)
_VALUE = re.compile(r"\{\{\w+\}\}|\{(\w+)\}")
_CALL_ID = re.compile(r"call_(\d+)_\d+")  # what `Script` calls the calls of its turns


@dataclass(frozen=True)
class Turn:
    """One answer of the model.

    Args:
        say: its text.
        call: the tools that it calls, by name, each with its arguments.
    """

    say: str = ""
    call: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict)

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT


@dataclass(frozen=True)
class Route:
    """What one operation of a service answers.

    It is called at NAME/OPERATION, by its `route`, and as the tool NAME_OPERATION of the MCP server.

    Args:
        reply: a JSON object; in its texts {amount} stands for that value of the call, and {{amount}} for itself.
        status: of HTTP.
        route: method and path below NAME, as the real service has them: POST /v1/charges, GET /v1/charges/{id}. The
            variable parts of the path, the query and the body, JSON or a form, are the values of the call.
        key: the header with the idempotency key; "": it knows none, and each call counts.
        description: what it does, for a model that may call it as a tool.
        effect: whether the call changes the outside world: then it goes into the ledger, and must happen exactly once.
            If not given, every call does but that of a GET route.
        most: how often one and the same call may change it in any run, the crash-free one too; if not given, as often
            as it does there.
    """

    reply: Mapping[str, JsonValue] = field(default_factory=dict)
    status: int = 200
    route: str = ""
    key: str = KEY
    description: str = ""
    effect: bool | None = None
    most: int | None = None

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    @property
    def acts(self) -> bool:
        """Whether it changes the outside world."""
        return self.route.partition(" ")[0] not in READING if self.effect is None else self.effect


@dataclass(frozen=True)
class Script:
    """A brain (see `chaos.world.Brain`) of *turns* and *services*; *goal* is the text that prompts carry.

    *volatile* is what may differ in prompts that are the same.
    """

    turns: Sequence[Turn]
    services: Mapping[str, Route]
    goal_text: str
    volatile: Volatile = field(default_factory=Volatile)

    def turn(self, messages: Sequence[Message]) -> int:
        """Return how many turns came before the prompt *messages*.

        The last call of a tool that it shows says which turn made it, whatever a compaction has left out before;
        the answers after it are counted, and all of them where none has a call.
        """
        after = 0
        for message in reversed(messages):
            if message["role"] == "assistant":
                after += 1
                made = [_CALL_ID.fullmatch(call["id"]) for call in message.get("tool_calls", ())]
                if numbers := [int(one[1]) for one in made if one]:
                    return max(numbers) + after
        return after

    def steady(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return *messages* with what is volatile masked."""
        return self.volatile.masked(messages)

    def reply(self, messages: Sequence[Message]) -> Reply:
        """Return the turn that comes after all answers in *messages*."""
        number = self.turn(messages)
        if number >= len(self.turns):
            raise ValueError(
                f"the prompt comes after {number} turns of the model, and the script has {len(self.turns)}: "
                "add one to target.command.turns, or have the agent stop where the model calls no tool"
            )
        turn = self.turns[number]
        calls = enumerate(turn.call.items())
        return Reply(turn.say, tuple(_call(f"call_{number}_{place}", *call) for place, call in calls))

    def goal(self, messages: Sequence[Message]) -> str:
        """Return the goal if a message carries it, "" if none does."""
        return self.goal_text if any(self.goal_text in (message.get("content") or "") for message in messages) else ""

    def serve(self, service: str, operation: str, payload: Mapping[str, Any]) -> Answer:
        """Return the declared answer; ValueError for what is not declared."""
        name = f"{service}.{operation}"
        route = self.services.get(name)
        if route is None:
            raise ValueError(f"no service {name!r} in target.command.services; {did_you_mean(name, self.services)}")
        return Answer(route.status, {word: filled(text, payload) for word, text in route.reply.items()}, route.acts)

    def endpoints(self) -> Sequence[Endpoint]:
        """Return all declared operations."""
        return endpoints(self.services)


def endpoints(services: Mapping[str, Route]) -> tuple[Endpoint, ...]:
    """Return *services*, named NAME.OPERATION, as those that call them see them."""
    made = []
    for name, one in services.items():
        service, _, operation = name.partition(".")
        made.append(Endpoint(service, operation, one.route, one.key, one.description, one.acts))
    return tuple(made)


def filled(reply: JsonValue, payload: Mapping[str, Any]) -> JsonValue:
    """Return *reply* with the values of *payload* in its texts; one that is a value and nothing else keeps its type.

    Raises:
        ValueError: it tells a value that the call does not have.
    """
    if isinstance(reply, dict):
        return {name: filled(value, payload) for name, value in reply.items()}
    if isinstance(reply, list):
        return [filled(value, payload) for value in reply]
    if not isinstance(reply, str):
        return reply
    missing = [name for name in _VALUE.findall(reply) if name and name not in payload]
    if missing:
        raise ValueError(f"the call has no {missing[0]!r}, which its reply tells; {did_you_mean(missing[0], payload)}")
    if (alone := _VALUE.fullmatch(reply)) and alone[1]:
        value: JsonValue = payload[alone[1]]
        return value
    return _VALUE.sub(lambda found: _text(payload[found[1]]) if found[1] else found[0][1:-1], reply)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _call(id: str, name: str, arguments: Mapping[str, JsonValue]) -> ToolCall:
    return ToolCall(id=id, type="function", function=ToolFunction(name=name, arguments=json.dumps(arguments)))
