"""The agent of `scenarios/own_agent` with OpenAI's own SDK."""

import json
import os
import sqlite3
import urllib.request

from openai import OpenAI

client = OpenAI()
database = sqlite3.connect(os.path.join(os.environ["CHAOS_DURABLE"], "agent.db"))
database.execute("CREATE TABLE IF NOT EXISTS messages (message TEXT)")
messages = [json.loads(text) for (text,) in database.execute("SELECT message FROM messages ORDER BY rowid")]


def keep(*new):
    with database:
        database.executemany("INSERT INTO messages VALUES (?)", [(json.dumps(message),) for message in new])
    messages.extend(new)


def call(tool):
    url = f"{os.environ['CHAOS_SERVICES_URL']}/travel/{tool.function.name}"
    request = urllib.request.Request(url, tool.function.arguments.encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return {"role": "tool", "tool_call_id": tool.id, "content": answer.read().decode()}


if not messages:
    keep({"role": "user", "content": "Book a trip to Oslo."})
while messages[-1]["role"] != "assistant":
    reply = client.chat.completions.create(model="any", messages=messages).choices[0].message
    keep(reply.model_dump(exclude_none=True), *map(call, reply.tool_calls or []))
with open("trip.md", "w") as file:
    file.write(messages[-1]["content"])
