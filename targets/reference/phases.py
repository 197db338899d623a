"""The agent on LangGraph in phases: a thread for each of them, and a hand-off from one to the next.

A phase's thread holds the messages of that phase only, and in its last checkpoint the hand-off. The next phase's prompt
opens with the goal and that hand-off. A phase whose hand-off is stored is over: a resume looks at it and passes on.
Strategies import this when they run.
"""

import operator
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.graph import END, START, StateGraph

from chaos.durable import Durable
from chaos.targets.reference import MAX_STEPS_FACTOR, handoff, savers
from chaos.targets.reference.agent import ERROR, Session, State, done, start, turns
from chaos.targets.reference.graph import RECURSION_LIMIT, App
from chaos.targets.reference.handoff import Handoff
from chaos.targets.reference.incarnation import Agent
from chaos.targets.reference.savers import Announced, Saver, newest_thread, opened, step_of
from chaos.world import Message

PHASES = 3
_SEPARATOR = "_phase"
COUNTED: tuple[Literal["steps", "tokens", "session"], ...] = ("steps", "tokens", "session")
"""Of the state, what is written whole in every step."""


class Channels(TypedDict):
    """One phase's thread. *messages* are its own, without the opening; *handoff* is there when it is over."""

    goal: str
    messages: Annotated[list[Message], operator.add]
    steps: int
    tokens: int
    session: Session
    handoff: Handoff


Node = Callable[[Channels], dict[str, object]]


class Place(NamedTuple):
    """Where the work stands: the *phase*, its *state* (None before the first), what it *received*.

    *begun* tells whether the phase has a checkpoint of its own.
    """

    phase: int
    state: State | None
    received: Handoff | None
    begun: bool


class Phased(Announced):
    """A saver of one phase's thread: its last step is committed when the next phase has begun.

    Args:
        first: the phase's first turn.
        last: its last one; -1 where no other phase follows.
    """

    def __init__(self, agent: Agent, inner: Saver, first: int, last: int) -> None:
        super().__init__(agent, inner)
        self._first, self._last = first, last

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        step = step_of(checkpoint)
        if step >= self._first and step != self._last:
            return super().put(config, checkpoint, metadata, new_versions)
        placed = self.inner.put(config, checkpoint, metadata, new_versions)
        if 0 <= step < self._first:  # that it is being committed was announced when the hand-off was stored
            self.agent.committed(step)
        return placed


def drive(agent: Agent, *, complete: bool) -> None:
    """Begin or resume the phase that *agent* is in, and drive it and those after it to the end.

    Args:
        complete: whether the hand-offs are stored whole; only their summaries are, if not, and the rest is in memory.
    """
    agent.loading()
    with opened(agent.durable, "sqlite") as inner:
        place = _place(inner, agent.thread)
        state, made = _run(agent, inner, place, agent.loaded(place.state), complete)
        while made is not None:
            state = _opened(state, made)
            agent.took(state)
            place = Place(place.phase + 1, state, made, begun=False)
            state, made = _run(agent, inner, place, state, complete)
        agent.finished(state)


def _run(agent: Agent, inner: Saver, place: Place, state: State, complete: bool) -> tuple[State, Handoff | None]:
    """Drive the phase of *place* on from *state*; return the state at its end and what it hands over."""
    planned = agent.max_steps // MAX_STEPS_FACTOR  # what a run without trouble takes
    end = -(-planned * place.phase // PHASES)
    last = place.phase == PHASES
    handed: list[Handoff] = []

    def turn(values: Channels) -> dict[str, object]:
        before = _state(values, place.received)
        after = agent.turn(before)
        new: dict[str, object] = {name: after[name] for name in COUNTED}
        new["messages"] = after["messages"][len(before["messages"]) :]
        if turns(after) >= end and not last and not done(after):
            handed.append(handoff.made(place.phase, turns(after), after["messages"], ERROR))
            new["handoff"] = handed[0] if complete else handoff.summary_only(handed[0])
        return new

    first = place.received["turns"] if place.received else 0
    saver = Phased(agent, inner, first, -1 if last else end - 1)
    app, config = _compile(turn, saver), _config(agent.thread, place.phase)
    if not place.begun:
        if first:  # the hand-off is stored: what is missing of the step before is that this phase begins
            agent.committing(first - 1)
        given: dict[str, object] = {name: state[name] for name in COUNTED}
        app.invoke({"goal": state["goal"], "messages": [], **given}, config, durability="sync")
    elif app.get_state(config).tasks:
        app.invoke(None, config, durability="sync")
    values = cast(Channels, app.get_state(config).values)
    return _state(values, place.received), handed[0] if handed else values.get("handoff")


def stored(durable: Durable) -> State | None:
    """Return the state that a resume would find in *durable*, None if there is none."""
    with savers.stored(durable, "sqlite") as inner:
        if inner is None or (thread := newest_thread(inner)) is None:
            return None
        return _place(inner, thread.rpartition(_SEPARATOR)[0]).state


def _place(saver: Saver, thread: str) -> Place:
    """Return where the work of *thread* stands: in the first phase that is not over."""
    app = _compile(lambda values: {}, saver)
    state, received = None, None
    for phase in range(1, PHASES + 1):
        values = cast(Channels, app.get_state(_config(thread, phase)).values)
        if "steps" not in values:  # not even its input has been taken in
            return Place(phase, state, received, begun=False)
        state = _state(values, received)
        if "handoff" not in values:
            return Place(phase, state, received, begun=True)
        received = values["handoff"]
        state = _opened(state, received)
    raise ValueError(f"the last phase of {thread} handed over to nobody")


def _state(values: Channels, received: Handoff | None) -> State:
    """Return the state in a phase: the conversation is the goal, what the phase *received*, and its own messages."""
    opening = start(values["goal"])["messages"] + ([handoff.message(received)] if received else [])
    return State(
        goal=values["goal"],
        messages=opening + list(values["messages"]),
        steps=values["steps"],
        tokens=values["tokens"],
        session=values["session"],
    )


def _opened(state: State, received: Handoff) -> State:
    """Return the state with which the phase after *state* begins."""
    return State({**state, "messages": start(state["goal"])["messages"] + [handoff.message(received)]})


def _compile(turn: Node, saver: Saver) -> App:
    graph = StateGraph(Channels)
    graph.add_node("turn", cast(Any, turn))
    graph.add_edge(START, "turn")
    graph.add_conditional_edges("turn", _next, ["turn", END])
    return graph.compile(checkpointer=saver)


def _next(values: Channels) -> str:
    over = "handoff" in values or done(_state(values, None))
    return END if over else "turn"


def _config(thread: str, phase: int) -> RunnableConfig:
    return {"configurable": {"thread_id": f"{thread}{_SEPARATOR}{phase}"}, "recursion_limit": RECURSION_LIMIT}
