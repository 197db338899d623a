"""An agent as people write them, with the standard library alone: it books a trip and keeps its conversation in SQLite.

It knows nothing of pytest-chaos but the addresses and folders that it finds in its environment. With KEYED=yes it sends
an idempotency key with each call of a service, made from the tool call's own id.
"""

import json
import os
import sqlite3
import urllib.request

MODEL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
TRAVEL = os.environ["CHAOS_SERVICES_URL"] + "/travel/"
KEYED = os.environ.get("KEYED") == "yes"
GOAL = {"role": "user", "content": "Book a trip to Oslo."}


def post(url, payload, **headers):
    request = urllib.request.Request(url, json.dumps(payload).encode(), {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def call(tool):
    name, arguments = tool["function"]["name"], json.loads(tool["function"]["arguments"])
    headers = {"Idempotency-Key": tool["id"]} if KEYED else {}
    return {
        "role": "tool",
        "tool_call_id": tool["id"],
        "content": json.dumps(post(TRAVEL + name, arguments, **headers)),
    }


def main():
    database = sqlite3.connect(os.path.join(os.environ["CHAOS_DURABLE"], "agent.db"))
    database.execute("CREATE TABLE IF NOT EXISTS messages (message TEXT)")
    messages = [json.loads(text) for (text,) in database.execute("SELECT message FROM messages ORDER BY rowid")] or [
        GOAL
    ]
    while True:
        if messages[-1]["role"] != "assistant":
            reply = post(MODEL, {"model": "any", "messages": messages})["choices"][0]["message"]
            new = [reply, *map(call, reply.get("tool_calls") or [])]
            with database:
                started = [GOAL] if len(messages) == 1 else []
                rows = [(json.dumps(message),) for message in [*started, *new]]
                database.executemany("INSERT INTO messages VALUES (?)", rows)
            messages += new
        if messages[-1]["role"] == "assistant":
            break
    with open("trip.md", "w") as file:
        file.write(messages[-1]["content"])


main()
