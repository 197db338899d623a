"""A refund that a person approves. What is stored in the session is announced to an audit first, which may be away."""

import asyncio
import json
import os
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, SQLiteSession, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from outside import call, durable

set_tracing_disabled(True)


@function_tool(needs_approval=True)
def refund(order: int) -> str:
    """Refund an order."""
    return call("bank.refund", key=f"order {order}", order=order)["receipt"]


class Audited(SQLiteSession):
    async def add_items(self, items):
        call("audit.note", kinds=[item.get("type", "message") for item in items])
        await super().add_items(items)


async def main():
    session = Audited("talk", durable("session.db"))
    if "--print" in sys.argv:
        items = await SQLiteSession("talk", durable("session.db")).get_items()
        print(json.dumps([[item.get("type", "message"), item.get("call_id", "")] for item in items]))
        return
    client = AsyncOpenAI(base_url=os.environ["OPENAI_BASE_URL"], api_key="none")
    agent = Agent("refunds", model=OpenAIChatCompletionsModel("any", client), tools=[refund])
    state = (await Runner.run(agent, "Refund order 7.", session=session)).to_state()
    for question in state.get_interruptions():
        state.approve(question)
    try:
        await Runner.run(agent, state, session=session)
    except OSError:  # the audit was away; it is back
        await Runner.run(agent, state, session=session)


asyncio.run(main())
