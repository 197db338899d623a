"""A researcher, a subgraph, collects sources and then waits for a person; the person wants to see what it has."""

import json
import sqlite3
import sys
from typing import Annotated, TypedDict

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from outside import ask, durable, leave

THREAD = {"configurable": {"thread_id": "research"}}
seen = []


def appended(sources, batches):
    return [*(sources or []), *(source for batch in batches for source in batch)]


class Research(TypedDict):
    sources: Annotated[list, DeltaChannel(appended)]


def approve(research):
    seen[:] = research["sources"]
    return {"sources": [interrupt("May I use these?")]}


researcher = StateGraph(Research)
researcher.add_node("collect", lambda research: {"sources": [ask(*research["sources"])]})
researcher.add_node("approve", approve)
researcher.add_edge(START, "collect")
researcher.add_edge("collect", "approve")
researcher.add_edge("approve", END)
graph = StateGraph(Research)
graph.add_node("researcher", researcher.compile())
graph.add_edge(START, "researcher")
graph.add_edge("researcher", END)
app = graph.compile(checkpointer=SqliteSaver(sqlite3.connect(durable("threads.db"), check_same_thread=False)))

if "--print" in sys.argv:
    (waiting,) = app.get_state(THREAD, subgraphs=True).tasks
    print(json.dumps({"sources": waiting.state.values.get("sources")}))
else:
    begun = app.get_state(THREAD).next
    app.invoke(None if begun else {"sources": ["the goal"]}, THREAD, durability="sync")
    leave(sources=seen)
