"""The agent as pure pieces over one JSON-able state: start, think, fold, done, digest.

    state = start(goal)
    while not done(state):
        reply   = ask the model think(state)
        results = do what the reply calls for          (the only impure piece: tools.py)
        state   = fold(state, reply, results)

How the state survives a crash is not the agent's business but that of a strategy.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypedDict

from chaos.targets.reference import MIN_WINDOW, release
from chaos.targets.reference.handoff import turns_before
from chaos.world import Message, ToolCall

MODEL = "scripted"
SYSTEM = "You are a careful analyst. Work towards the goal with the tools until it is reached, one call at a time."
GOAL_PREFIX = "Goal: "
OPENING = 2
"""Messages that a conversation opens with: the system's, and the goal."""
ERROR = "error:"
"""A tool's result that begins so says that the call failed; the model sees it like any other result."""


class Session(TypedDict):
    """What the agent knows of its shell: enough to set up another one like it."""

    cwd: str  # relative to the workspace
    environment: dict[str, str]
    packages: list[str]
    services: list[list[str]]


class State(TypedDict):
    """All that the agent is. *steps* and *tokens* are what it has used of its budget, redone work included."""

    goal: str
    messages: list[Message]
    steps: int
    tokens: int
    session: Session


class Tool(TypedDict):
    type: str
    function: dict[str, str]


class Request(TypedDict):
    """The body of a chat completion request."""

    model: str
    messages: list[Message]
    tools: list[Tool]
    metadata: dict[str, str]


@dataclass(frozen=True)
class Completion:
    """The model's reply: its *message* and the *tokens* that the exchange cost."""

    message: Message
    tokens: int


TOOLS: tuple[tuple[str, str], ...] = (
    ("call_service", "Call an operation of a service of the company."),
    ("run", "Run a command in the shell."),
    ("cd", "Change the shell's working directory."),
    ("set_environment", "Set variables in the shell's environment."),
    ("write_file", "Write a file of the workspace."),
    ("read_file", "Read a file of the workspace."),
    ("scratch", "Keep a text in a temporary file, or read it back."),
    ("install_package", "Install a wheel into the private environment."),
    ("start_service", "Start a module of the private environment as a background service."),
    ("query_service", "Ask the background service."),
    ("commit", "Write a file and commit the whole workspace."),
)
"""Name and description of every tool."""


def new_session() -> Session:
    """Return the session of an agent that has done nothing yet."""
    return Session(cwd=".", environment={}, packages=[], services=[])


def start(goal: str) -> State:
    """Return the state at the beginning: the conversation opens with the system's message and the goal."""
    opening = [Message(role="system", content=SYSTEM), Message(role="user", content=GOAL_PREFIX + goal)]
    return State(goal=goal, messages=opening, steps=0, tokens=0, session=new_session())


def remembered(messages: list[Message]) -> State:
    """Return the state of an agent that has its *messages* and nothing else: its counters and session are gone."""
    opening = next((m.get("content") or "" for m in messages if m["role"] == "user"), "")
    goal = opening.removeprefix(GOAL_PREFIX)
    return State(goal=goal, messages=messages, steps=0, tokens=0, session=new_session())


def turns(state: State) -> int:
    """Return how many steps the conversation tells of; unlike `steps` it cannot be lost without the messages."""
    messages = state["messages"]
    return turns_before(messages) + sum(message["role"] == "assistant" for message in messages)


def done(state: State) -> bool:
    """Tell whether the agent has said its last word: a message that calls no tool."""
    last = state["messages"][-1]
    return last["role"] == "assistant" and not last.get("tool_calls")


def think(state: State, window: int = 0) -> Request:
    """Return what to ask the model; the metadata carry the agent's own account of its budget.

    Args:
        window: how many of the newest messages to show besides the opening; 0 for the whole conversation.
    """
    metadata = {"budget_steps": str(state["steps"]), "budget_tokens": str(state["tokens"])}
    shown = release.prompted(_shown(state["messages"], window))
    return Request(model=MODEL, messages=shown, tools=_tools(), metadata=metadata)


def _tools() -> list[Tool]:
    offered = release.offered(TOOLS)
    return [Tool(type="function", function={"name": name, "description": text}) for name, text in offered]


def _shown(messages: list[Message], window: int) -> list[Message]:
    """Return the opening and at most *window* messages; no tool's result comes without the call that it answers."""
    if not window or len(messages) <= OPENING + window:
        return messages
    first = len(messages) - window
    while first < len(messages) and messages[first]["role"] == "tool":
        first += 1
    return messages[:OPENING] + messages[first:]


def narrower(state: State, window: int) -> int:
    """Return half of what *window* shows of *state* besides the opening, in messages; 0 if it cannot be less."""
    shown = len(_shown(state["messages"], window)) - OPENING
    return shown // 2 if shown // 2 >= MIN_WINDOW else 0


def fold(state: State, reply: Completion, results: Sequence[str]) -> State:
    """Return the state after a step: the reply, one result for each of its tool calls, the budget, the session."""
    calls = reply.message.get("tool_calls", [])
    answers = [
        Message(role="tool", tool_call_id=call["id"], content=result)
        for call, result in zip(calls, results, strict=True)
    ]
    session = state["session"]
    for call, result in zip(calls, results, strict=True):
        if not result.startswith(ERROR):
            session = _after(session, call)
    return State(
        goal=state["goal"],
        messages=[*state["messages"], reply.message, *answers],
        steps=state["steps"] + 1,
        tokens=state["tokens"] + reply.tokens,
        session=session,
    )


def _after(session: Session, call: ToolCall) -> Session:
    """Return the session after the successful *call*."""
    name, given = call["function"]["name"], json.loads(call["function"]["arguments"])
    cwd, environment = session["cwd"], session["environment"]
    packages, services = session["packages"], session["services"]
    if name == "cd":
        cwd = given["path"]
    elif name == "set_environment":
        environment = {**environment, **given["variables"]}
    elif name == "install_package" and given["wheel"] not in packages:
        packages = [*packages, given["wheel"]]
    elif name == "start_service" and given["command"] not in services:
        services = [*services, given["command"]]
    return Session(cwd=cwd, environment=environment, packages=packages, services=services)


def canonical(value: object) -> bytes:
    """Return the one JSON text of *value*."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class Digest:
    """Digests a state that grows, in time proportional to what is new since the last call."""

    def __init__(self) -> None:
        self._count, self._chain = 0, b""
        self._last: Message | None = None

    def __call__(self, state: State) -> str:
        """Return the digest of *state*; equal states have equal digests in every incarnation."""
        messages = state["messages"]
        # Trust what was digested before only as long as it ends in the very same object.
        if self._count and (self._count > len(messages) or messages[self._count - 1] is not self._last):
            self._count, self._chain = 0, b""
        for message in messages[self._count :]:
            self._chain = blake2b(self._chain + canonical(message), digest_size=16).digest()
        self._count, self._last = len(messages), messages[-1] if messages else None
        rest = canonical([state["goal"], state["steps"], state["tokens"], state["session"]])
        return "blake2b:" + blake2b(self._chain + rest, digest_size=16).hexdigest()


def digest(state: State) -> str:
    """Return the digest of *state* as a whole."""
    return Digest()(state)
