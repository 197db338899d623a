"""A small thread that LangGraph itself stores and reads back, on any saver."""

import operator
from typing import Annotated, Any, TypedDict

from langgraph.channels import DeltaChannel
from langgraph.graph import END, START, StateGraph

TURNS = 7
CONFIG: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 100}


def extend(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*state, *(item for write in writes for item in write)]


def compiled(saver: Any, every: int | None) -> Any:
    """Return the graph on *saver*; *every* is the snapshot frequency of the delta channel, None for a whole one."""
    channel: Any = operator.add if every is None else DeltaChannel(extend, snapshot_frequency=every)

    class State(TypedDict):
        messages: Annotated[list[str], channel]
        steps: int

    def turn(state: State) -> dict[str, object]:
        return {"messages": [f"message {state['steps']}"], "steps": state["steps"] + 1}

    graph = StateGraph(State).add_node("turn", turn).add_edge(START, "turn")
    graph.add_conditional_edges("turn", lambda state: "turn" if state["steps"] < TURNS else END)
    return graph.compile(checkpointer=saver)


def run(saver: Any, every: int | None) -> None:
    """Drive the thread to its end."""
    compiled(saver, every).invoke({"messages": ["goal"], "steps": 0}, CONFIG, durability="sync")


def messages(saver: Any, every: int | None) -> list[str]:
    """Return the conversation as LangGraph reads it back."""
    found: list[str] = compiled(saver, every).get_state(CONFIG).values["messages"]
    return found
