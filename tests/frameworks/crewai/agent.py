"""A trip booked and paid by a flow whose state is persisted after each method; it goes on by its id, as documented."""

import json
import os
import sqlite3
import sys

from outside import ask, call, durable
from together import show

THREAD = "trip"
GOAL = "Book a trip to Oslo."
DATABASE = durable("trip.db")

if "--print" in sys.argv:  # before the import of CrewAI, which takes longer than all the rest
    last = "SELECT state_json FROM flow_states WHERE flow_uuid = ? ORDER BY id DESC LIMIT 1"
    show(said=json.loads(sqlite3.connect(DATABASE).execute(last, [THREAD]).fetchone()[0])["said"])
    sys.exit()

os.environ.update(CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true", CREWAI_STORAGE_DIR="crewai")
os.environ["HOME"] = os.environ["CHAOS_WORKSPACE"]  # what it keeps besides the flow's state

from crewai.flow.flow import Flow, listen, start  # noqa: E402
from crewai.flow.persistence import SQLiteFlowPersistence, persist  # noqa: E402
from pydantic import BaseModel  # noqa: E402

STORE = SQLiteFlowPersistence(DATABASE)


class Said(BaseModel):
    id: str = THREAD
    said: list[str] = [GOAL]


@persist(STORE)
class Trip(Flow[Said]):
    @start()
    def choose(self):
        self.state.said += [ask(*self.state.said)]

    @listen(choose)
    def book(self):
        self.state.said += [f"Booked: {call('travel.book', flight=self.state.said[-1])['booking']}. What is it?"]

    @listen(book)
    def price(self):
        self.state.said += [ask(*self.state.said)]

    @listen(price)
    def pay(self):
        self.state.said += [f"Paid: {call('travel.pay', amount=self.state.said[-1])['receipt']}. Sum up."]

    @listen(pay)
    def report(self):
        self.state.said += [ask(*self.state.said)]


flow = Trip(suppress_flow_events=True)
flow.kickoff(inputs={"id": THREAD})
show(said=flow.state.said)
