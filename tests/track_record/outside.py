"""What the agents of the track record have in common: calls of services, and of the model. Standard library only."""

import json
import os
import urllib.request


def call(operation, key="", **payload):
    """Call *operation* ("mail.send") with *payload*; a *key* makes it idempotent."""
    headers = {"Idempotency-Key": key} if key else {}
    return _post(f"{os.environ['CHAOS_SERVICES_URL']}/{operation.replace('.', '/')}", payload, headers)


def ask(*said):
    """Return the model's answer to a conversation: *said* are the texts, the user's and the model's by turns."""
    roles = ("user", "assistant")
    messages = [{"role": roles[number % 2], "content": text} for number, text in enumerate(said)]
    reply = _post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", {"model": "any", "messages": messages}, {})
    return reply["choices"][0]["message"]["content"]


def leave(**state):
    """Leave what the program holds at its end, to be compared with what another process reads."""
    with open("state.json", "w") as file:
        json.dump(state, file)


def durable(name):
    """Return the path of the file *name* on the volume."""
    return os.path.join(os.environ["CHAOS_DURABLE"], name)


def _post(url, payload, headers):
    request = urllib.request.Request(url, json.dumps(payload).encode(), {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)
