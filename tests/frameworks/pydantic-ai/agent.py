"""A trip booked and paid by tools that are DBOS steps, as documented; DBOS recovers the run that was cut off."""

import asyncio
import os
import sys

from dbos import DBOS, DBOSClient, SetWorkflowID
from outside import call, durable
from together import show

THREAD = "trip"
GOAL = "Book a trip to Oslo."
DATABASE = f"sqlite:///{durable('trip.db')}"

if "--print" in sys.argv:  # before the import of Pydantic AI, which takes longer than all the rest
    show(parts=DBOSClient(system_database_url=DATABASE).retrieve_workflow(THREAD).get_result())
    sys.exit()

from pydantic_ai import Agent  # noqa: E402
from pydantic_ai.durable_exec.dbos import DBOSDurability  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402

DBOS(
    config={
        "name": "travel",
        "system_database_url": DATABASE,
        "executor_id": "local",
        "application_version": "1",
        "run_admin_server": False,
        "log_level": "CRITICAL",
    }
)
provider = OpenAIProvider(base_url=os.environ["OPENAI_BASE_URL"], api_key="none")
agent = Agent(OpenAIChatModel("any", provider=provider), name="travel", capabilities=[DBOSDurability()])


@agent.tool_plain
@DBOS.step()
async def book(flight: str) -> str:
    """Book a flight."""
    return (await asyncio.to_thread(call, "travel.book", flight=flight))["booking"]


@agent.tool_plain
@DBOS.step()
async def pay(amount: int) -> str:
    """Pay for it."""
    return (await asyncio.to_thread(call, "travel.pay", amount=amount))["receipt"]


@DBOS.workflow()
async def trip():
    result = await agent.run(GOAL)
    return [part.part_kind for message in result.all_messages() for part in message.parts]


async def main():
    DBOS.launch()
    with SetWorkflowID(THREAD):
        handle = await DBOS.start_workflow_async(trip)
    show(parts=await handle.get_result())


asyncio.run(main())
DBOS.destroy()
