"""A quick and a slow lookup side by side, durability exit; the person stops the run while the slow one is under way."""

import asyncio
import json
import operator
import os
import sqlite3
import sys
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from outside import ask, durable, leave

THREAD = {"configurable": {"thread_id": "lookups"}}
MODE = os.environ.get("DURABILITY", "exit")


class Lookups(TypedDict):
    found: Annotated[list, operator.add]


async def quick(lookups):
    return {"found": [ask("Look it up, quickly.")]}


async def slow(lookups):
    await asyncio.sleep(30)
    return {"found": ["too late"]}


graph = StateGraph(Lookups)
for name, node in (("quick", quick), ("slow", slow)):
    graph.add_node(name, node)
    graph.add_edge(START, name)
    graph.add_edge(name, END)


async def stopped():
    async with AsyncSqliteSaver.from_conn_string(durable("threads.db")) as saver:
        run = asyncio.create_task(graph.compile(checkpointer=saver).ainvoke({"found": []}, THREAD, durability=MODE))
        await asyncio.sleep(1)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)


if "--print" in sys.argv:
    app = graph.compile(checkpointer=SqliteSaver(sqlite3.connect(durable("threads.db"), check_same_thread=False)))
    tasks = app.get_state(THREAD).tasks
    print(
        json.dumps({task.name: "stopped" if task.error else "done" if task.result else "not begun" for task in tasks})
    )
else:
    asyncio.run(stopped())
    leave(quick="done", slow="stopped")
