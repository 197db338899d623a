"""A flow that has an agent charge a customer. Prefect retries it, and knows what was done.

Its model has no tool calls of its own: a line that begins with a tool's name is one.
"""

import asyncio

from outside import ask, call
from prefect import flow
from pydantic_ai import Agent
from pydantic_ai.durable_exec.prefect import PrefectDurability
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel


def model(messages, info):
    said = ask(*(text(part) for message in messages for part in message.parts))
    for tool in info.function_tools:
        if said.startswith(f"{tool.name} "):
            return ModelResponse([ToolCallPart(tool.name, {"amount": int(said.split()[1])})])
    return ModelResponse([TextPart(said)])


def text(part):
    return f"{part.tool_name} {part.args['amount']}" if isinstance(part, ToolCallPart) else str(part.content)


agent = Agent(FunctionModel(model), name="biller", capabilities=[PrefectDurability()])


@agent.tool_plain
async def charge(amount: int) -> str:
    """Charge the customer."""
    return (await asyncio.to_thread(call, "bank.charge", amount=amount))["receipt"]


@flow(retries=1, retry_delay_seconds=1, persist_result=True)
async def bill():
    await agent.run("Charge 7.")


asyncio.run(bill())
