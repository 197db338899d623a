"""Long results live in a global."""

from __future__ import annotations

from chaos.targets.planted.catch import COMMIT, Catch
from chaos.targets.planted.driver import Driver
from chaos.targets.reference.agent import Completion, State
from chaos.world import Message

CATCH = Catch(
    f"kill@{COMMIT}/before_think",
    "state",
    f"the prompt of turn {COMMIT} (attempt 2) differs",
    breaks=frozenset({"goal", "files"}),  # the report is made from what the model was shown
)

LONG_CHARS = 300  # what is longer is kept out of the conversation, to keep checkpoints small

_RESULTS: dict[str, str] = {}


class StateInGlobal(Driver):
    """Keeps long results in a module's global and a reference in the state; the global is empty after a restart.

    In real agents: a cache of tool results, a registry of objects, a scratchpad beside the framework's state.
    Exposed by `kill` at any point after a long result. Must be caught by `state` (another prompt).
    """

    def act(self, number: int, reply: Completion) -> list[str]:
        return [_put_away(f"result-{number}", result) for result in super().act(number, reply)]

    def ask(self, number: int, state: State) -> Completion:
        return super().ask(number, {**state, "messages": [_whole(message) for message in state["messages"]]})


def _put_away(name: str, result: str) -> str:
    if len(result) <= LONG_CHARS:
        return result
    _RESULTS[name] = result
    return name


def _whole(message: Message) -> Message:
    content = message.get("content") or ""
    return {**message, "content": _RESULTS.get(content, content)} if message["role"] == "tool" else message
