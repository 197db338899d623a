"""An order is charged, then shipped, with durability sync. The store of pending writes is slow; commits are told."""

import operator
import sqlite3
import time
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from outside import ask, call, durable

THREAD = {"configurable": {"thread_id": "order"}}
SECONDS = 0.3  # of storing what a node wrote


class Slow(SqliteSaver):
    def put_writes(self, *arguments):
        time.sleep(SECONDS)
        super().put_writes(*arguments)

    def put(self, config, checkpoint, metadata, versions):
        if metadata["step"] == 1:  # the first node has ended, and what it wrote is to be superseded
            call("monitor.commits", step=1)
        return super().put(config, checkpoint, metadata, versions)


class Order(TypedDict):
    log: Annotated[list, operator.add]


def charge(order):
    return {"log": [call("shop.charge", amount=ask("How much?"))["id"]]}


def ship(order):
    return {"log": [call("shop.ship")["id"]]}


graph = StateGraph(Order)
graph.add_node("charge", charge)
graph.add_node("ship", ship)
graph.add_edge(START, "charge")
graph.add_edge("charge", "ship")
graph.add_edge("ship", END)
app = graph.compile(checkpointer=Slow(sqlite3.connect(durable("threads.db"), check_same_thread=False)))
begun = app.get_state(THREAD).next
app.invoke(None if begun else {"log": []}, THREAD, durability="sync")
