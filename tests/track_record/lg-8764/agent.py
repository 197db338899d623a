"""An order is taken and charged; whoever comes after a crash has the thread's id. The store is slow."""

import operator
import sqlite3
import sys
import time
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from outside import ask, call, durable, leave

THREAD = {"configurable": {"thread_id": "order"}}
SECONDS = 0.3  # of a commit


class Slow(SqliteSaver):
    def put(self, *arguments):
        time.sleep(SECONDS)
        return super().put(*arguments)


class Order(TypedDict):
    log: Annotated[list, operator.add]


def charge(order):
    call("bank.charge", key="order", amount=ask("How much?"))
    return {"log": ["charged"]}


graph = StateGraph(Order)
graph.add_node("charge", charge)
graph.add_edge(START, "charge")
graph.add_edge("charge", END)
app = graph.compile(checkpointer=Slow(sqlite3.connect(durable("threads.db"), check_same_thread=False)))
if "--print" in sys.argv:
    import json

    print(json.dumps(app.get_state(THREAD).values))
else:
    leave(**app.invoke(None if "--continue" in sys.argv else {"log": ["ordered"]}, THREAD))
