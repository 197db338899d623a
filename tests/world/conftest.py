"""A small scripted brain and a world around it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from chaos.events.seen import Asked, Effected
from chaos.journal import Journal
from chaos.world import Answer, Message, Reply, ToolCall
from chaos.world.server import World

GOAL = "find the price of tea"
LONG = "Ein langer Satz über Tee, in Stücken gesendet. " * 3


class TeaBrain:
    """Greets, searches twice in one turn, then speaks; says no to anything about coffee."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Mapping[str, Any]]] = []
        self.hold: threading.Event | None = None

    def reply(self, messages: Sequence[Message]) -> Reply:
        if self.hold is not None:
            self.hold.wait()
        last = messages[-1].get("content") or ""
        if "coffee" in last:
            raise ValueError("the script knows nothing about coffee")
        if "break" in last:
            raise KeyError("a mistake in the brain")
        if "much" in last:
            return Reply("x" * 4_000_000)
        turn = sum(message["role"] == "assistant" for message in messages)
        if turn == 0 and "tea" in last:
            calls = tuple(call(f"call_tea_{i}", "search", {"query": f"{kind} tea price"}) for i, kind in KINDS)
            return Reply("I will search.", calls)
        return Reply(LONG if "long" in last else f"turn {turn}: {last}")

    def goal(self, messages: Sequence[Message]) -> str:
        return GOAL if any(GOAL in (message.get("content") or "") for message in messages) else ""

    def serve(self, service: str, operation: str, payload: Mapping[str, Any]) -> Answer:
        self.calls.append((service, operation, payload))
        if operation == "search":
            return Answer(200, {"hits": []})
        if not payload:
            return Answer(422, {"error": {"message": "empty"}})
        return Answer(201, {"id": "T-1", "echo": dict(payload)}, effect=True, off_goal=service == "casino")


KINDS = tuple(enumerate(("green", "black")))


def call(call_id: str, name: str, arguments: Mapping[str, Any]) -> ToolCall:
    text = json.dumps(arguments, separators=(",", ":"), sort_keys=True)
    return ToolCall(id=call_id, type="function", function={"name": name, "arguments": text})


def failure(ask: Callable[[], Any]) -> Exception | None:
    """Return what *ask* raises, None if it comes back."""
    try:
        ask()
    except Exception as error:
        return error
    return None


class Stage:
    """A started world with its brain and journal."""

    def __init__(self, path: Path) -> None:
        self.brain = TeaBrain()
        self.journal = Journal(path)
        self.world = World(self.brain, self.journal)

    @property
    def asked(self) -> list[Asked]:
        return [event for event in self.journal.events if isinstance(event, Asked)]

    @property
    def effected(self) -> list[Effected]:
        return [event for event in self.journal.events if isinstance(event, Effected)]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.jsonl")
    yield made
    made.close()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path / "journal.jsonl")
    with stage.world:
        yield stage
    stage.journal.close()
