"""A trip booked and paid by the tools of a deep agent with a checkpointer; it goes on from the last checkpoint.

`--pay` has a person approve first: several processes answer that one.
"""

import os
import sqlite3
import sys

from deepagents import create_deep_agent
from langchain_anthropic import ChatAnthropic
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from outside import call, durable
from together import at_once, released

THREAD = {"configurable": {"thread_id": "trip"}}
GOAL = {"messages": [("user", "Book a trip to Oslo.")]}
APPROVAL = "--pay" in sys.argv or "--answer" in sys.argv


def book(flight: str) -> str:
    """Book a flight."""
    return call("travel.book", flight=flight)["booking"]


def pay(amount: int) -> str:
    """Pay for it."""
    return call("travel.pay", amount=amount)["receipt"]


app = create_deep_agent(
    model=ChatAnthropic(model="any", api_key="none", base_url=os.environ["ANTHROPIC_BASE_URL"], max_tokens=1000),
    tools=[book, pay],
    interrupt_on={"pay": True} if APPROVAL else None,
    checkpointer=SqliteSaver(sqlite3.connect(durable("trip.db"), check_same_thread=False)),
)


def run(given, config=THREAD):
    return app.invoke(given, config, durability="sync")


def begin():
    return run(None if app.get_state(THREAD).created_at else GOAL)


if "--answer" in sys.argv:
    app.get_state(THREAD)
    released()
    run(Command(resume={"decisions": [{"type": "approve"}]}))
elif "--pay" in sys.argv:
    begin()
    at_once(__file__, "--answer")
else:
    begin()
