"""A trip booked and paid by tools; the conversation is in a SQLiteSession, and goes on with no new input.

`--pay` has a person approve first, which stores the run: several processes go on with it.
"""

import asyncio
import json
import os
import sqlite3
import sys
from pathlib import Path

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    RunState,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from outside import call, durable
from together import at_once, released, show

set_tracing_disabled(True)
GOAL = "Book a trip to Oslo."
DATABASE = durable("trip.db")
PAUSED = Path(durable("paused.json"))


@function_tool
def book(flight: str) -> str:
    """Book a flight."""
    return call("travel.book", flight=flight)["booking"]


@function_tool(needs_approval="--pay" in sys.argv or "--answer" in sys.argv)
def pay(amount: int) -> str:
    """Pay for it."""
    return call("travel.pay", amount=amount)["receipt"]


model = OpenAIChatCompletionsModel("any", AsyncOpenAI(base_url=os.environ["OPENAI_BASE_URL"], api_key="none"))
agent = Agent("travel", model=model, tools=[book, pay])
session = SQLiteSession("trip", DATABASE)


def told(items):
    return [[item.get("type", item.get("role")), item.get("call_id", "")] for item in items]


async def main():
    begun = await session.get_items()
    result = await Runner.run(agent, [] if begun else GOAL, session=session)
    show(items=told(result.to_input_list()))


async def stop():
    """Run until the approval is asked for, and store that."""
    result = await Runner.run(agent, GOAL)
    PAUSED.write_text(result.to_state().to_string())


async def answer():
    state = await RunState.from_string(agent, PAUSED.read_text())
    for question in state.get_interruptions():
        state.approve(question)
    released()
    await Runner.run(agent, state)


if "--answer" in sys.argv:
    asyncio.run(answer())
elif "--pay" in sys.argv:
    if not PAUSED.exists():
        asyncio.run(stop())
    at_once(__file__, "--answer")
elif "--print" in sys.argv:
    stored = sqlite3.connect(DATABASE).execute("SELECT message_data FROM agent_messages ORDER BY id")
    show(items=told(json.loads(text) for (text,) in stored))
else:
    asyncio.run(main())
