"""Two approvals are asked for at once, each announced by e-mail; the answers come one after the other."""

import operator
import sqlite3
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from outside import ask, call, durable

THREAD = {"configurable": {"thread_id": "approvals"}}
TEAMS = ("legal", "sales")


class Approvals(TypedDict):
    given: Annotated[list, operator.add]


def approval(team):
    def node(approvals):
        if team == "sales":
            call("mail.send", to=team)
        return {"given": [f"{team}: {interrupt(team)}"]}

    return node


graph = StateGraph(Approvals)
for team in TEAMS:
    graph.add_node(team, approval(team))
    graph.add_edge(START, team)
    graph.add_edge(team, END)
app = graph.compile(checkpointer=SqliteSaver(sqlite3.connect(durable("threads.db"), check_same_thread=False)))
if not app.get_state(THREAD).next:
    app.invoke({"given": []}, THREAD, durability="sync")
while waiting := [one for task in app.get_state(THREAD).tasks for one in task.interrupts if not task.result]:
    first = min(waiting, key=lambda one: one.value)
    app.invoke(Command(resume={first.id: ask(f"Does {first.value} agree?")}), THREAD, durability="sync")
