"""The agent of `scenarios/own_agent` with an official SDK, streaming: `responses` is OpenAI's, `gemini` Google's.

A tool is called before its turn is kept, with an idempotency key, so a crash between the two does no harm. A stream
that has no end is an error: the agent stops, and begins the turn again when it is started again.
"""

import json
import os
import sqlite3
import sys
import urllib.request

GOAL = "Book a trip to Oslo."
database = sqlite3.connect(os.path.join(os.environ["CHAOS_DURABLE"], "agent.db"))
database.execute("CREATE TABLE IF NOT EXISTS items (item TEXT)")
items = [json.loads(text) for (text,) in database.execute("SELECT item FROM items ORDER BY rowid")]


def keep(*new):
    with database:
        database.executemany("INSERT INTO items VALUES (?)", [(json.dumps(item),) for item in new])
    items.extend(new)


def call(name, arguments, key):
    url = f"{os.environ['CHAOS_SERVICES_URL']}/travel/{name}"
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(arguments).encode(), headers)) as answer:
        return json.load(answer)


def responses():
    """Return the text in which the model ends."""
    from openai import OpenAI

    client = OpenAI(timeout=0.5)
    if not items:
        keep({"role": "user", "content": GOAL})
    while True:
        last = None
        for event in client.responses.create(model="any", input=items, stream=True):
            last = event
        if last is None or last.type != "response.completed":
            sys.exit("the stream has no end")
        output = [item.to_dict() for item in last.response.output]
        calls = [item for item in output if item["type"] == "function_call"]
        results = [(one["call_id"], call(one["name"], json.loads(one["arguments"]), one["call_id"])) for one in calls]
        keep(
            *output,
            *({"type": "function_call_output", "call_id": id, "output": json.dumps(value)} for id, value in results),
        )
        if not calls:
            return last.response.output_text


def gemini():
    """Return the text in which the model ends."""
    from google import genai

    retries = {"attempts": 4, "initial_delay": 0.05, "exp_base": 1.5, "jitter": 0.0}
    client = genai.Client(http_options={"timeout": 500, "retry_options": retries})
    if not items:
        keep({"role": "user", "parts": [{"text": GOAL}]})
    while True:
        parts, end = [], None
        for chunk in client.models.generate_content_stream(model="any", contents=items):
            candidate = chunk.candidates[0]
            parts += (part.model_dump(mode="json", exclude_none=True) for part in candidate.content.parts)
            end = candidate.finish_reason
        if end != "STOP":
            sys.exit("the stream has no end")
        calls = [part["function_call"] for part in parts if "function_call" in part]
        results = [(one, call(one["name"], one["args"], one["id"])) for one in calls]
        answers = [
            {"function_response": {"id": one["id"], "name": one["name"], "response": value}} for one, value in results
        ]
        keep({"role": "model", "parts": parts}, *([{"role": "user", "parts": answers}] if answers else []))
        if not calls:
            return "".join(part.get("text", "") for part in parts)


said = {"responses": responses, "gemini": gemini}[sys.argv[1]]()
with open("trip.md", "w") as file:
    file.write(said)
