"""An offer waits for a decision. The person changes their mind: back to the question, and another answer."""

import sqlite3
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from outside import ask, call, durable

THREAD = {"configurable": {"thread_id": "offer"}}


class Offer(TypedDict, total=False):
    price: str


graph = StateGraph(Offer)
graph.add_node("decide", lambda offer: {"price": interrupt("At which price?")})
graph.add_node("send", lambda offer: call("mail.offer", price=offer["price"]) and None)
graph.add_edge(START, "decide")
graph.add_edge("decide", "send")
graph.add_edge("send", END)
app = graph.compile(checkpointer=SqliteSaver(sqlite3.connect(durable("threads.db"), check_same_thread=False)))
if not app.get_state(THREAD).config["configurable"].get("checkpoint_id"):
    app.invoke({}, THREAD, durability="sync")
question = next(one for one in app.get_state_history(THREAD) if one.interrupts and one.next == ("decide",)).config
said = ["The price?"]
for more in ("Sure?", ""):
    said += [ask(*said), more]
    app.invoke(Command(resume=said[-2]), question, durability="sync")
