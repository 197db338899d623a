"""A workflow that plans a payment, then pays. Its context is stored when a step begins, and restored after a crash."""

import asyncio
import json
import os

from llama_index.core.workflow import Context, Event, JsonSerializer, StartEvent, StopEvent, Workflow, step
from outside import ask, call, durable

STORED = durable("context.json")
begun, stored = asyncio.Event(), asyncio.Event()


class Due(Event):
    amount: str


class Payment(Workflow):
    @step
    async def plan(self, ctx: Context, ev: StartEvent) -> Due:
        return Due(amount="66 crowns")

    @step
    async def pay(self, ctx: Context, ev: Due) -> StopEvent:
        begun.set()
        await stored.wait()
        account = await asyncio.to_thread(ask, "Which account?")
        await asyncio.to_thread(call, "bank.pay", amount=ev.amount, account=account)
        return StopEvent(result=account)


async def main():
    workflow = Payment(timeout=20)
    if os.path.exists(STORED):
        stored.set()
        with open(STORED) as file:
            context = Context.from_dict(workflow, json.load(file), serializer=JsonSerializer())
        await workflow.run(ctx=context)
    else:
        running = workflow.run()
        await begun.wait()
        with open(STORED + ".new", "w") as file:
            json.dump(running.ctx.to_dict(serializer=JsonSerializer()), file)
        os.replace(STORED + ".new", STORED)
        stored.set()
        await running
    await asyncio.sleep(0.5)


asyncio.run(main())
