"""A chat on a development server, which keeps its threads in memory and on disk. Release 2 has a delta channel."""

import json
import operator
import os
import sys
from typing import Annotated, TypedDict

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver, PersistentDict
from langgraph.graph import END, START, StateGraph
from outside import ask, durable, leave

TALKS = ("Where to?", "When?", "With whom?")
THREAD = {"configurable": {"thread_id": "chat"}}


def appended(notes, batches):
    return [*(notes or []), *(note for batch in batches for note in batch)]


class One(TypedDict):
    notes: Annotated[list, operator.add]


class Two(TypedDict):
    notes: Annotated[list, DeltaChannel(appended)]


def kept():
    """Return a saver in memory whose three tables are files."""
    names = iter(("storage", "writes", "blobs"))
    saver = InMemorySaver(factory=lambda *made: PersistentDict(*made, filename=durable(next(names))))
    for table in tables(saver):
        if os.path.exists(table.filename):
            table.load()
    return saver


def tables(saver):
    return saver.storage, saver.writes, saver.blobs


saver = kept()
graph = StateGraph(Two if "--release-2" in sys.argv else One)
graph.add_node("answer", lambda chat: {"notes": [ask(*chat["notes"])]})
graph.add_edge(START, "answer")
graph.add_edge("answer", END)
app = graph.compile(checkpointer=saver)


def stored():
    return app.get_state(THREAD).values.get("notes", [])


if "--print" in sys.argv:
    print(json.dumps({"notes": stored()}))
else:
    notes = stored()
    while len(notes) < 2 * len(TALKS):
        said = None if len(notes) % 2 else {"notes": [TALKS[len(notes) // 2]]}
        notes = app.invoke(said, THREAD, durability="sync")["notes"]
        for table in tables(saver):
            table.sync()
    leave(notes=notes)
