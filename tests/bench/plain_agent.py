"""A plain loop, as people write it: one commit of SQLite for each step, and a state whose size does not grow.

A step asks the model with what it carries over, acts, and commits. Every fifth step writes a file, every twentieth
sends an e-mail with an idempotency key besides: four of five have no effect; of coding agents' turns it is published
for more than three of four. Run by `tests.bench.plain` as `python -m tests.bench.plain_agent [--reload]`.
"""

from __future__ import annotations

import http.client
import json
import os
import sqlite3
import sys
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import TypedDict
from urllib.parse import urlsplit

from chaos.probe import point

GOAL = "Work through the list, one item at a time."
FILE_EVERY, EMAIL_EVERY = 5, 20
FILES = 16  # that are written again and again: neither the state nor the folder grows with the run


class State(TypedDict):
    """All that the agent knows: how many steps are done, and a digest of what was said in them."""

    step: int
    chain: str


def main(arguments: list[str]) -> int:
    """Begin, or go on from the last commit, and come to the end; with --reload print the state that is stored."""
    with closing(sqlite3.connect(Path(os.environ["CHAOS_DURABLE"], "state.sqlite"), isolation_level=None)) as store:
        if arguments == ["--reload"]:
            print(json.dumps(load(store), sort_keys=True))
            return 0
        point("before_load", 0)
        state = load(store)
        point("after_load", state["step"], state=digest(state))
        while state["step"] < int(os.environ["PLAIN_STEPS"]):
            state = step(store, state)
        point("finished", state["step"], state=digest(state), snapshot=state)
    return 0


def load(store: sqlite3.Connection) -> State:
    """Return the state of the last commit; the folder is made as it was then."""
    store.execute("PRAGMA journal_mode = WAL")
    store.execute("CREATE TABLE IF NOT EXISTS state (step INTEGER PRIMARY KEY, chain TEXT)")
    row = store.execute("SELECT step, chain FROM state ORDER BY step DESC LIMIT 1").fetchone()
    return State(step=row[0], chain=row[1]) if row else State(step=0, chain="")


def step(store: sqlite3.Connection, state: State) -> State:
    """Ask, act, commit; return the state after it."""
    number = state["step"]
    point("before_think", number)
    said = ask(state)
    point("before_act", number)
    if number % FILE_EVERY == 0:
        Path(f"{number // FILE_EVERY % FILES}.txt").write_text(said)
    if number % EMAIL_EVERY == 0:
        key = {"Idempotency-Key": f"{os.environ['THREAD_ID']}-{number}"}
        post("CHAOS_SERVICES_URL", "/email/send", {"to": "team", "item": number}, key)
    point("after_act", number)
    state = State(step=number + 1, chain=blake2b((state["chain"] + said).encode(), digest_size=8).hexdigest())
    store.execute("BEGIN")
    store.execute("INSERT INTO state VALUES (?, ?)", (state["step"], state["chain"]))
    point("during_commit", number)
    store.execute("COMMIT")
    point("after_commit", number, state=digest(state))
    return state


def digest(state: State) -> str:
    """Return what tells states apart."""
    return blake2b(json.dumps(state, sort_keys=True).encode(), digest_size=8).hexdigest()


def ask(state: State) -> str:
    """Return what the model says to the next item."""
    messages = [
        {"role": "system", "content": f"Goal: {GOAL}"},
        {"role": "user", "content": json.dumps(state, sort_keys=True)},
    ]
    budget = {"x-chaos-budget": str(state["step"])}
    answer = json.loads(post("OPENAI_BASE_URL", "/chat/completions", {"model": "plain", "messages": messages}, budget))
    said: str = answer["choices"][0]["message"]["content"]
    return said


_connections: dict[str, http.client.HTTPConnection] = {}


def post(where: str, path: str, body: object, headers: dict[str, str]) -> bytes:
    """Return the body of the answer."""
    url = urlsplit(os.environ[where])
    connection = _connections.setdefault(url.netloc, http.client.HTTPConnection(url.netloc))
    connection.request("POST", url.path + path, json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status >= 300:
        raise SystemExit(f"{path}: {answer.status} {text!r}")
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
