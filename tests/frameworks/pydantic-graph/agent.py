"""A trip booked and paid by a graph with a file as its persistence, which takes up what stands in it."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

from outside import ask, call, durable
from pydantic_graph import BaseNode, End, Graph, GraphRunContext
from pydantic_graph.persistence.file import FileStatePersistence
from together import show

GOAL = "Book a trip to Oslo."
FILE = Path(durable("trip.json"))


@dataclass
class Trip:
    said: list[str] = field(default_factory=lambda: [GOAL])


@dataclass
class Choose(BaseNode[Trip]):
    async def run(self, ctx: GraphRunContext[Trip]) -> Book:
        ctx.state.said.append(ask(*ctx.state.said))
        return Book()


@dataclass
class Book(BaseNode[Trip]):
    async def run(self, ctx: GraphRunContext[Trip]) -> Price:
        booking = call("travel.book", flight=ctx.state.said[-1])["booking"]
        ctx.state.said.append(f"Booked: {booking}. What is it?")
        return Price()


@dataclass
class Price(BaseNode[Trip]):
    async def run(self, ctx: GraphRunContext[Trip]) -> Pay:
        ctx.state.said.append(ask(*ctx.state.said))
        return Pay()


@dataclass
class Pay(BaseNode[Trip]):
    async def run(self, ctx: GraphRunContext[Trip]) -> Report:
        receipt = call("travel.pay", amount=ctx.state.said[-1])["receipt"]
        ctx.state.said.append(f"Paid: {receipt}. Sum up.")
        return Report()


@dataclass
class Report(BaseNode[Trip, None, str]):
    async def run(self, ctx: GraphRunContext[Trip]) -> End[str]:
        ctx.state.said.append(ask(*ctx.state.said))
        return End("done")


graph = Graph(nodes=(Choose, Book, Price, Pay, Report))


async def main():
    persistence = FileStatePersistence(FILE)
    persistence.set_graph_types(graph)
    if not FILE.exists():
        await graph.initialize(Choose(), persistence, state=Trip())
    async with graph.iter_from_persistence(persistence) as run:
        async for _ in run:
            pass
    show(said=run.state.said)


if "--print" in sys.argv:
    show(said=json.loads(FILE.read_text())[-1]["state"]["said"])
else:
    asyncio.run(main())
