"""Eight trips are planned at once; for each, one node adds a step to its plan while another begins the plan anew."""

import json
import sqlite3
import sys
from typing import Annotated, TypedDict

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Overwrite
from outside import ask, durable, leave

THREAD = {"configurable": {"thread_id": "trips"}}
TRIPS = ("bonn", "cork", "dole", "ghent", "jena", "lund", "oslo", "riga")


def appended(plan, batches):
    return [*(plan or []), *(step for batch in batches for step in batch)]


Trips = TypedDict("Trips", {trip: Annotated[list, DeltaChannel(appended)] for trip in TRIPS})
graph = StateGraph(Trips)


def planner(trip, change):
    return lambda trips: {trip: change}


def confirm(trips):
    ask(f"Confirm: {json.dumps({trip: trips[trip] for trip in TRIPS})}")


graph.add_node("confirm", confirm)
graph.add_edge("confirm", END)
for trip in TRIPS:
    for name, change in (("book", ["book a hotel"]), ("replan", Overwrite(["take the train"]))):
        node = f"{name} {trip}"
        graph.add_node(node, planner(trip, change))
        graph.add_edge(START, node)
graph.add_edge([f"{name} {trip}" for trip in TRIPS for name in ("book", "replan")], "confirm")
app = graph.compile(checkpointer=SqliteSaver(sqlite3.connect(durable("threads.db"), check_same_thread=False)))

if "--print" in sys.argv:
    stored = app.get_state(THREAD).values
    print(json.dumps({trip: stored[trip] for trip in TRIPS}))
else:
    begun = app.get_state(THREAD).next
    leave(**app.invoke(None if begun else {trip: ["take a plane"] for trip in TRIPS}, THREAD, durability="sync"))
