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
from chaos.world.volatile import Volatile

_STRICT = ConfigDict(extra="forbid", strict=True)
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

    Args:
        reply: a JSON object.
        status: of HTTP.
        effect: whether the call changes the outside world: then it goes into the ledger, and must happen exactly once.
        most: how often one and the same call may change it in any run, the crash-free one too; if not given, as often
            as it does there.
    """

    reply: Mapping[str, JsonValue] = field(default_factory=dict)
    status: int = 200
    effect: bool = True
    most: int | None = None

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT


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
        return Answer(route.status, dict(route.reply), effect=route.effect)


def _call(id: str, name: str, arguments: Mapping[str, JsonValue]) -> ToolCall:
    return ToolCall(id=id, type="function", function=ToolFunction(name=name, arguments=json.dumps(arguments)))
