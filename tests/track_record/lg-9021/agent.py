"""A buyer that keeps its budget, an object, in its state: asks for an offer, spends, and asks for the next."""

import sqlite3
from dataclasses import dataclass, field
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from outside import ask, call, durable

THREAD = {"configurable": {"thread_id": "buyer"}}


@dataclass
class Budget:
    limit: int
    spent: int = field(init=False, default=0)


class Purchase(TypedDict, total=False):
    budget: Budget
    offers: list


def spend(purchase):
    budget = purchase["budget"]
    budget.spent += 3
    return {"budget": budget}


def buy(purchase):
    left = purchase["budget"].limit - purchase["budget"].spent
    offer = ask(f"An offer for at most {left}?")
    call("shop.buy", key="offer", offer=offer, left=left)


graph = StateGraph(Purchase)
graph.add_node("spend", spend)
graph.add_node("buy", buy)
graph.add_edge(START, "spend")
graph.add_edge("spend", "buy")
graph.add_edge("buy", END)
app = graph.compile(checkpointer=SqliteSaver(sqlite3.connect(durable("threads.db"), check_same_thread=False)))
begun = app.get_state(THREAD).next
app.invoke(None if begun else {"budget": Budget(10)}, THREAD, durability="sync")
