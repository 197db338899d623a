"""What differs between prompts that mean the same (times, ids) is masked before they are compared or looked up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from chaos.mask import MASK
from chaos.world import Message, ToolCall, ToolFunction


@dataclass(frozen=True)
class Volatile:
    """Regular expressions; what they find in the texts and arguments of a conversation may be anything.

    Ids of tool calls are left alone: the model makes them.
    """

    patterns: tuple[str, ...] = ()

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{pattern})" for pattern in self.patterns))

    def masked(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return *messages* with what is volatile masked."""
        return [self._message(message) for message in messages] if self.patterns else messages

    def _message(self, message: Message) -> Message:
        masked = message.copy()
        if content := message.get("content"):
            masked["content"] = self._text(content)
        if calls := message.get("tool_calls"):
            masked["tool_calls"] = [self._call(call) for call in calls]
        return masked

    def _call(self, call: ToolCall) -> ToolCall:
        function = call["function"]
        arguments = self._text(function["arguments"])
        return ToolCall(
            id=call["id"], type=call["type"], function=ToolFunction(name=function["name"], arguments=arguments)
        )

    def _text(self, text: str) -> str:
        return self._pattern.sub(MASK, text)
