"""Write one long note in each turn: a conversation that grows by the same number of bytes in every step.

What is measured with it is what a strategy stores, so a step does as little as possible: every fourth turn writes its
text to a new file, the others read a word that the first one kept. The text is random: a store that compresses must
not win by that.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from chaos.seeds import rng
from chaos.targets import Facts
from chaos.targets.reference import handoff
from chaos.targets.reference.agent import GOAL_PREFIX
from chaos.world import Answer, Brain, Message, Reply, ToolCall, ToolFunction

GOAL = "Take long notes on every source, and keep each fourth one in a file of its own below notes/."
VARIABLES: tuple[str, ...] = ()
FILE_EVERY = 4
"""Three of four turns leave the OS as it is: about the share that was measured for real agents (70 to 87 %)."""

_CALL_ID = re.compile(r"call_note_(\d+)")


def brain(seed: int, steps: int, bytes_per_step: int) -> Brain:
    """Return the model; it needs no services."""
    return LongNotes(seed, steps, bytes_per_step)


def facts(seed: int, steps: int, bytes_per_step: int, max_requests: int) -> Facts:
    """Return what is true of a right result: the files."""
    notes = ((path_of(turn), text(seed, turn, bytes_per_step)) for turn in range(steps - 1) if writes(turn))
    digests = tuple((f"workspace/{path}", blake2b(note.encode(), digest_size=16).hexdigest()) for path, note in notes)
    return Facts(GOAL, digests=digests, max_requests=max_requests)


def writes(turn: int) -> bool:
    """Tell whether *turn* writes a file."""
    return turn % FILE_EVERY == FILE_EVERY - 1


def path_of(turn: int) -> str:
    """Return the path of the file that *turn* writes, below the workspace."""
    return f"notes/{turn + 1:04}.md"


@lru_cache(maxsize=8)
def text(seed: int, turn: int, length: int) -> str:
    """Return the note of *turn*: *length* random letters that JSON needs not escape."""
    return base64.b64encode(rng(seed, "note", turn).randbytes(length)).decode()[:length]


@dataclass(frozen=True)
class LongNotes:
    """The scripted model, a pure function of what it is asked."""

    seed: int
    steps: int
    bytes_per_step: int

    def reply(self, messages: Sequence[Message]) -> Reply:
        """Return the note of the turn that comes next: in a call that writes it, or in words beside a small call."""
        if self.goal(messages) != GOAL:
            raise ValueError("the goal is gone from the conversation")
        turn = self.turn(messages)
        if turn >= self.steps:
            raise ValueError(f"the conversation is over: it has {turn} of {self.steps} turns")
        note = text(self.seed, turn, self.bytes_per_step)
        if turn == self.steps - 1:
            return Reply(note)
        if writes(turn):
            return Reply("", (_call(turn, "write_file", {"path": path_of(turn), "content": note}),))
        kept = {"do": "read", "name": "topic"} if turn else {"do": "write", "name": "topic", "content": "sources"}
        return Reply(note, (_call(turn, "scratch", kept),))

    def turn(self, messages: Sequence[Message]) -> int:
        """Return the turn that comes next: after the model's own last call, wherever the prompt begins."""
        said = next((message for message in reversed(messages) if message["role"] == "assistant"), None)
        if said is None:
            return _handed_over(messages)
        calls = said.get("tool_calls", [])
        found = _CALL_ID.fullmatch(calls[-1]["id"]) if calls else None
        return int(found[1]) + 1 if found else self.steps  # only the last word calls nothing

    def goal(self, messages: Sequence[Message]) -> str:
        """Return the goal as the first user message has it."""
        first = next((message.get("content") or "" for message in messages if message["role"] == "user"), "")
        return first.removeprefix(GOAL_PREFIX) if first.startswith(GOAL_PREFIX) else ""

    def serve(self, service: str, operation: str, payload: Mapping[str, Any]) -> Answer:
        """Answer that there is no service."""
        return Answer(404, {"error": f"no operation {service}.{operation}"})


def _handed_over(messages: Sequence[Message]) -> int:
    """Return the turns before a hand-off; one that makes no sense tells nothing."""
    try:
        return handoff.turns_before(messages)
    except ValueError:
        return 0


def _call(turn: int, tool: str, arguments: Mapping[str, object]) -> ToolCall:
    function = ToolFunction(name=tool, arguments=json.dumps(arguments, sort_keys=True))
    return ToolCall(id=f"call_note_{turn}", type="function", function=function)
