"""A trip booked and paid by a graph with a checkpointer, durability sync; it goes on from the last one.

`--pay` has a person approve first: several processes answer that one. `--fork` runs on twice from a checkpoint.
"""

import operator
import sqlite3
import sys
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from outside import ask, call, durable
from together import at_once, released, show

THREAD = {"configurable": {"thread_id": "trip"}}
GOAL = "Book a trip to Oslo."


class Trip(TypedDict):
    said: Annotated[list, operator.add]


def think(trip):
    return {"said": [ask(*trip["said"])]}


def book(trip):
    return {"said": [f"Booked: {call('travel.book', flight=trip['said'][-1])['booking']}. What is it?"]}


def pay(trip):
    return {"said": [f"Paid: {call('travel.pay', amount=trip['said'][-1])['receipt']}. Sum up."]}


def approve(trip):
    return {"said": [interrupt("May I?")]}


def graph(*nodes):
    """Return a graph of *nodes*, one after the other."""
    made, before = StateGraph(Trip), START
    for number, node in enumerate(nodes):
        name = f"{number}-{node.__name__}"
        made.add_node(name, node)
        made.add_edge(before, name)
        before = name
    return made.compile(checkpointer=SqliteSaver(sqlite3.connect(durable("trip.db"), check_same_thread=False)))


def run(app, given, config=THREAD):
    return app.invoke(given, config, durability="sync")


def begin(app):
    """Start the thread, or go on where it stands."""
    return run(app, None if app.get_state(THREAD).created_at else {"said": [GOAL]})


def fork():
    """Come to the end, then twice more from the checkpoint before the payment; a fork that was cut off is ended."""
    app = graph(think, book, think, pay, think)
    while len(ends := [state for state in app.get_state_history(THREAD) if not state.next and not state.tasks]) < 3:
        if app.get_state(THREAD).tasks or not ends:
            begin(app)
        else:
            (before, *_) = reversed([state for state in app.get_state_history(THREAD) if state.next == ("3-pay",)])
            run(app, None, before.config)
    return [state.values["said"] for state in ends]


def answer():
    app = graph(approve, pay)
    app.get_state(THREAD)
    released()
    run(app, Command(resume="120"))


if "--answer" in sys.argv:
    answer()
elif "--pay" in sys.argv:
    begin(graph(approve, pay))
    at_once(__file__, "--answer")
elif "--print-forks" in sys.argv:
    show(forks=fork())
elif "--fork" in sys.argv:
    ended = fork()
    show(forks=[ended[-1]] * 3)
else:
    app = graph(think, book, think, pay, think)
    if "--print" in sys.argv:
        show(said=app.get_state(THREAD).values["said"])
    else:
        show(said=begin(app)["said"])
