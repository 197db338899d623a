"""The plain loop as a target (see `plain_agent`): its own cost does not grow, so what grows is the harness's."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

from chaos.errors import UnknownName, did_you_mean
from chaos.sandbox import Watch
from chaos.targets import Facts, InProcess, Launch, Strategy
from chaos.world import Answer, Message, Reply, services
from tests.bench import plain_agent

ROOT = Path(__file__).parents[2]
WARM = ("http.client", "sqlite3", "json", "hashlib", "chaos.probe", "email.parser")


@dataclass(frozen=True)
class PlainBrain:
    """Answers what it is shown, by its content alone."""

    def reply(self, messages: Sequence[Message]) -> Reply:
        shown = messages[-1]["content"] or ""
        return Reply(f"noted {blake2b(shown.encode(), digest_size=8).hexdigest()}")

    def goal(self, messages: Sequence[Message]) -> str:
        return (messages[0]["content"] or "").removeprefix("Goal: ")

    def turn(self, messages: Sequence[Message]) -> int:
        step: int = json.loads(messages[-1]["content"] or "{}")["step"]
        return step

    def serve(self, service: str, operation: str, payload: Mapping[str, Any]) -> Answer:
        return Answer(200, {"ok": True}, effect=True)


@dataclass(frozen=True)
class Loop(InProcess):
    """One commit of SQLite for each step."""

    claims: ClassVar[frozenset[str]] = frozenset({"messages"})
    store: ClassVar[str] = ""
    durable: ClassVar[bool] = True


@dataclass(frozen=True)
class Plain:
    """The plain loop of so many *steps*."""

    steps: int = 100

    def strategy(self, name: str, options: Mapping[str, object]) -> Strategy:
        if name != "loop":
            raise UnknownName(f"the target 'plain' has no strategy {name!r}; {did_you_mean(name, ['loop'])}")
        return Loop()

    def prepare(self, assets: Path, seed: int) -> None:
        """Put nothing there: it needs nothing."""

    def launch(self, strategy: Strategy, seed: int, root: Path) -> Launch:
        return self._launch()

    def reload(self, strategy: Strategy, seed: int, root: Path) -> Launch:
        return self._launch("--reload")

    def digest(self, state: bytes) -> str | None:
        return plain_agent.digest(json.loads(state))

    def brain(self, seed: int) -> PlainBrain:
        return PlainBrain()

    def facts(self, seed: int) -> Facts:
        emails = range(0, self.steps, plain_agent.EMAIL_EVERY)
        required = tuple(services.identity("email", "send", {"to": "team", "item": number}) for number in emails)
        return Facts(goal=plain_agent.GOAL, required=required)

    @property
    def releases(self) -> Mapping[str, tuple[str, ...]]:
        return {}

    def watch(self) -> Watch:
        return Watch()

    def _launch(self, *arguments: str) -> Launch:
        env = {"PYTHONPATH": str(ROOT), "PLAIN_STEPS": str(self.steps)}
        return Launch((sys.executable, "-m", "tests.bench.plain_agent", *arguments), env, WARM)
