"""The agent on LangGraph: one node, `turn`, that loops until the agent is done. Imported by strategies when they run.

A step is durable in two stages: first the node's writes, then the checkpoint that contains them (`put`). Killed
between the two, LangGraph applies the writes on resume and does not run the step again.
"""

import operator
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, cast

from langchain_core.runnables import RunnableConfig
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from chaos.targets.reference.agent import Session, State, done
from chaos.targets.reference.incarnation import Agent
from chaos.world import Message

DATABASE = "state.db"
RECURSION_LIMIT = 1_000_000  # the agent has a budget of its own; LangGraph's default of 25 is for small graphs
WRITES_SECONDS = 10.0  # the other thread is at work on them; if they never come, the checkpoint is complete without

Durability = Literal["sync", "async", "exit"]
App = CompiledStateGraph[Any, Any, Any, Any]


class Memory(InMemorySaver):
    """LangGraph's saver in memory, with the points of a commit."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self._agent = agent

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new: ChannelVersions
    ) -> RunnableConfig:
        with _announced(self._agent, checkpoint):
            return super().put(config, checkpoint, metadata, new)


class Sqlite(SqliteSaver):
    """LangGraph's saver on SQLite, with the points of a commit.

    LangGraph saves a step's writes and its checkpoint on two threads that may overtake each other. A crash point must
    mean the same in every run, so here the writes come first, which is what nearly always happens.
    """

    def __init__(self, connection: sqlite3.Connection, agent: Agent, durability: Durability) -> None:
        super().__init__(connection)
        self._agent = agent
        self._has_writes = durability != "exit"
        self._arrived = threading.Condition()

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        super().put_writes(config, writes, task_id, task_path)
        with self._arrived:
            self._arrived.notify_all()

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new: ChannelVersions
    ) -> RunnableConfig:
        if self._has_writes and _step(checkpoint) >= 0:
            with self._arrived:
                self._arrived.wait_for(lambda: self._stored(config), WRITES_SECONDS)
        with _announced(self._agent, checkpoint):
            return super().put(config, checkpoint, metadata, new)

    def _stored(self, config: RunnableConfig) -> bool:
        """Tell whether the writes that lead on from the checkpoint of *config* are in the database."""
        place = config["configurable"]
        where = (place["thread_id"], place["checkpoint_ns"], place["checkpoint_id"])
        query = "SELECT 1 FROM writes WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? LIMIT 1"
        with self.cursor(transaction=False) as cursor:
            return cursor.execute(query, where).fetchone() is not None


def drive(agent: Agent, saver: BaseCheckpointSaver[Any], every: int | None, durability: Durability) -> None:
    """Begin or resume the thread of *agent* in *saver* and drive it to its end.

    Args:
        every: snapshot frequency of the delta channel; None for a channel that is stored whole each time.
    """
    agent.loading()

    def turn(state: State) -> dict[str, object]:
        after = agent.turn(state)
        new = after["messages"][len(state["messages"]) :]
        counted = {"steps": after["steps"], "tokens": after["tokens"], "session": after["session"]}
        return {"messages": _write(new, every), **counted}

    app = _compile(turn, saver, every)
    config: RunnableConfig = {"configurable": {"thread_id": agent.thread}, "recursion_limit": RECURSION_LIMIT}
    stored = _state(app, config)
    state = agent.loaded(stored)
    # A thread has finished when it has no tasks left; `next` is empty too when a step's writes wait for their
    # checkpoint. And input may be given only to a new thread: on an old one it throws those writes away.
    if stored is None:
        app.invoke({**state, "messages": _write(state["messages"], every)}, config, durability=durability)
    elif app.get_state(config).tasks:
        app.invoke(None, config, durability=durability)
    final = _state(app, config)
    assert final is not None
    agent.finished(final)


@contextmanager
def opened(durable: Path) -> Iterator[sqlite3.Connection]:
    """Open the database of the *durable* zone; savers use it from worker threads."""
    connection = sqlite3.connect(durable / DATABASE, check_same_thread=False)
    try:
        yield connection
    finally:
        connection.close()


def stored(durable: Path, every: int | None) -> State | None:
    """Return the newest state of the newest thread in *durable*, None if there is none."""
    if not (durable / DATABASE).exists():
        return None
    with opened(durable) as connection:
        saver = SqliteSaver(connection)
        newest = next(saver.list(None, limit=1), None)
        if newest is None:
            return None
        thread = newest.config["configurable"]["thread_id"]
        return _state(_compile(_idle, saver, every), {"configurable": {"thread_id": thread}})


def _idle(state: State) -> dict[str, object]:
    return {}


def _compile(turn: Callable[[State], dict[str, object]], saver: BaseCheckpointSaver[Any], every: int | None) -> App:
    conversation: Any = operator.add if every is None else DeltaChannel(_extended, snapshot_frequency=every)

    class Channels(TypedDict):
        goal: str
        messages: Annotated[list[Message], conversation]
        steps: int
        tokens: int
        session: Session

    graph = StateGraph(Channels)
    graph.add_node("turn", cast(Any, turn))
    graph.add_edge(START, "turn")
    graph.add_conditional_edges("turn", lambda state: END if done(cast(State, state)) else "turn", ["turn", END])
    return graph.compile(checkpointer=saver)


class Write(TypedDict):
    """What one step writes to a delta channel.

    A bare list of messages would not do: LangGraph turns those into objects of its own and gives them random ids.
    """

    new: list[Message]


def _write(new: list[Message], every: int | None) -> object:
    return new if every is None else Write(new=new)


def _extended(messages: list[Message] | None, writes: Sequence[Write]) -> list[Message]:
    return [*(messages or []), *(message for write in writes for message in write["new"])]


def _state(app: App, config: RunnableConfig) -> State | None:
    """Return the state of the thread as it stands, None if not even its input has been taken in."""
    values = app.get_state(config).values
    if "steps" not in values:
        return None
    return State(
        goal=values["goal"],
        messages=list(values["messages"]),
        steps=values["steps"],
        tokens=values["tokens"],
        session=values["session"],
    )


@contextmanager
def _announced(agent: Agent, checkpoint: Checkpoint) -> Iterator[None]:
    """Announce the commit of the step in *checkpoint*; the input belongs to no step."""
    step = _step(checkpoint)
    if step >= 0:
        agent.committing(step)
    yield
    if step >= 0:
        agent.committed(step)


def _step(checkpoint: Checkpoint) -> int:
    """Return the step that *checkpoint* is the first to contain, -1 for the input."""
    return int(checkpoint["channel_values"].get("steps", 0)) - 1
