"""The agent on LangGraph: one node, `turn`, that loops until the agent is done. Strategies import it when they run."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypedDict, cast

from langchain_core.runnables import RunnableConfig
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from chaos.durable import Durable
from chaos.targets.reference import savers
from chaos.targets.reference.agent import Session, State, done
from chaos.targets.reference.databases import Database as Database
from chaos.targets.reference.databases import Durability as Durability
from chaos.targets.reference.incarnation import Agent
from chaos.targets.reference.release import step_name
from chaos.targets.reference.savers import Announced, Saver, newest_thread, opened
from chaos.world import Message

RECURSION_LIMIT = 1_000_000  # the agent has a budget of its own; LangGraph's default of 25 is for small graphs

App = CompiledStateGraph[Any, Any, Any, Any]


def drive(agent: Agent, saver: Saver, *, every: int | None, durability: Durability, thread: str | None = None) -> None:
    """Begin or resume the thread of *agent* in *saver* and drive it to its end.

    Args:
        every: snapshot frequency of the delta channel; None for a channel that is stored whole each time.
        thread: the name of the thread, the agent's own if None.
    """
    agent.loading()

    def turn(state: State) -> dict[str, object]:
        after = agent.turn(state)
        new = after["messages"][len(state["messages"]) :]
        counted = {"steps": after["steps"], "tokens": after["tokens"], "session": after["session"]}
        return {"messages": _write(new, every), **counted}

    app = _compile(turn, saver, every)
    config: RunnableConfig = {"configurable": {"thread_id": thread or agent.thread}, "recursion_limit": RECURSION_LIMIT}
    stored = app.get_state(config)
    found = _state(stored.values)
    state = agent.loaded(found)
    # A thread has finished when it has no tasks left; `next` is empty too when a step's writes wait for their
    # checkpoint. And input may be given only to a new thread: on an old one it throws those writes away.
    values = stored.values
    if found is None:
        values = app.invoke({**state, "messages": _write(state["messages"], every)}, config, durability=durability)
    elif stored.tasks:
        values = app.invoke(None, config, durability=durability)
    final = _state(values)
    assert final is not None
    agent.finished(final)


@contextmanager
def saver(agent: Agent, database: Database, durability: Durability) -> Iterator[Saver]:
    """Open the saver of *agent* on *database*: it announces the commits."""
    with opened(agent.durable, database) as inner:
        yield Announced(agent, inner, writes=durability != "exit")


def memory(agent: Agent) -> Saver:
    """Return a saver in memory that announces the commits."""
    return Announced(agent, InMemorySaver())


def stored(durable: Durable, database: Database, every: int | None) -> State | None:
    """Return the newest state of the newest thread in *durable*, None if there is none."""
    with savers.stored(durable, database) as inner:
        if inner is None or (thread := newest_thread(inner)) is None:
            return None
        return _state(_compile(_idle, inner, every).get_state({"configurable": {"thread_id": thread}}).values)


def _idle(state: State) -> dict[str, object]:
    return {}


def _compile(turn: Callable[[State], dict[str, object]], saver: Saver, every: int | None) -> App:
    conversation: Any = _joined if every is None else DeltaChannel(_extended, snapshot_frequency=every)

    class Channels(TypedDict):
        goal: str
        messages: Annotated[list[Message], conversation]
        steps: int
        tokens: int
        session: Session

    graph = StateGraph(Channels)
    node = step_name("turn")
    graph.add_node(node, cast(Any, turn))
    graph.add_edge(START, node)
    graph.add_conditional_edges(node, lambda state: END if done(cast(State, state)) else node, [node, END])
    return graph.compile(checkpointer=saver)


class Write(TypedDict):
    """What one step writes to a delta channel.

    A bare list of messages would not do: LangGraph turns those into objects of its own and gives them random ids.
    """

    new: list[Message]


def _write(new: list[Message], every: int | None) -> object:
    return new if every is None else Write(new=new)


def _joined(messages: list[Message], new: list[Message]) -> list[Message]:
    """Return `operator.add` of both; of a builtin LangGraph parses the signature, with each graph that it compiles."""
    return messages + new


def _extended(messages: list[Message] | None, writes: Sequence[Write]) -> list[Message]:
    return [*(messages or []), *(message for write in writes for message in write["new"])]


def _state(values: dict[str, Any]) -> State | None:
    """Return the state in the channels' *values*, None if not even its input has been taken in."""
    if "steps" not in values:
        return None
    return State(
        goal=values["goal"],
        messages=list(values["messages"]),
        steps=values["steps"],
        tokens=values["tokens"],
        session=values["session"],
    )
