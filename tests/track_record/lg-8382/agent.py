"""Six readers look at one source each, in one superstep; their notes stand in one delta channel, in order."""

import sqlite3
import sys
from typing import Annotated, TypedDict

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from outside import ask, durable, leave

SOURCES = ("atlas", "budget", "census", "diary", "essay", "fable")
THREAD = {"configurable": {"thread_id": "report"}}


def appended(notes, batches):
    return [*(notes or []), *(note for batch in batches for note in batch)]


class Report(TypedDict):
    notes: Annotated[list, DeltaChannel(appended)]


def reader(source):
    return lambda state: {"notes": [f"read the {source}"]}


def summarise(state):
    return {"notes": [ask("Summarise: " + "; ".join(state["notes"]))]}


graph = StateGraph(Report)
graph.add_node("summarise", summarise)
for source in SOURCES:
    graph.add_node(source, reader(source))
    graph.add_edge(START, source)
graph.add_edge(list(SOURCES), "summarise")
graph.add_edge("summarise", END)
app = graph.compile(checkpointer=SqliteSaver(sqlite3.connect(durable("threads.db"), check_same_thread=False)))

if "--print" in sys.argv:
    import json

    print(json.dumps({"notes": app.get_state(THREAD).values["notes"]}))
else:
    begun = app.get_state(THREAD).next
    leave(notes=app.invoke(None if begun else {"notes": ["the goal"]}, THREAD, durability="sync")["notes"])
