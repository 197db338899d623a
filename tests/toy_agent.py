"""What the toy target runs: a correct little agent that comes back from anything its durable zone survives.

Each step asks the model, writes the answer to a file (step 1 sends an e-mail too) and appends one line to a log.
Run in the sandbox by `tests.toy`, as `from toy_agent import *` and then the code of the test: `work()`, mostly.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from chaos.probe import point

__all__ = ["Path", "Refused", "ask", "begin", "digest", "finish", "load", "os", "point", "say", "signal", "socket"]
__all__ += ["step", "sys", "time", "toy", "work"]

GOAL = "Count to the end."
TOO_MANY_REQUESTS = 429

DURABLE = Path(os.environ["CHAOS_DURABLE"])
LOG = DURABLE / "history.jsonl"
STEPS = int(os.environ["TOY_STEPS"])
KEEPS = os.environ["TOY_KEEPS"] == "yes"

toy = sys.modules[__name__]
patient = True  # wait and ask again when refused; a test may say `toy.patient = False`


class Refused(Exception):
    """The model endpoint did not answer."""


def work() -> None:
    """Begin, or go on from the log, and come to the end."""
    answers = begin()
    while len(answers) < STEPS:
        step(answers)
    finish(answers)


def begin() -> list[str]:
    """Return the answers so far; the files are made again from them."""
    point("before_load", 0)
    answers = load()
    for number, answer in enumerate(answers):
        write(number, answer)
    point("after_load", len(answers), state=digest(answers))
    return answers


def step(answers: list[str]) -> None:
    """Do the next step and record it."""
    number = len(answers)
    point("before_think", number)
    answer = ask(answers)
    point("before_act", number)
    write(number, answer)
    if number == 1:
        post("/email/send", {"to": "team"}, {"Idempotency-Key": f"{os.environ['THREAD_ID']}-{number}"}, SERVICES)
    point("after_act", number)
    answers.append(answer)
    if KEEPS:
        with open(LOG, "a") as log:
            log.write(json.dumps(answer) + "\n")
    point("after_commit", number, state=digest(answers))


def finish(answers: list[str]) -> None:
    """Announce the end, with all that the agent knows."""
    point("finished", len(answers), state=digest(answers), snapshot={"answers": answers})


def load() -> list[str]:
    """Return what the log holds."""
    return [json.loads(line) for line in LOG.read_text().splitlines()] if KEEPS and LOG.exists() else []


def write(number: int, answer: str) -> None:
    """Put *answer* into the workspace."""
    Path(f"{number}.txt").write_text(answer)


def say(text: object) -> None:
    """Tell the test something: it comes out as the key of a point."""
    point("before_load", 0, key=str(text))


def digest(answers: list[str]) -> str:
    return hashlib.blake2b(json.dumps(answers).encode(), digest_size=8).hexdigest()


def ask(answers: list[str]) -> str:
    """Return the model's next word; refused, wait as long as told and ask again."""
    messages = [{"role": "user", "content": GOAL}]
    for answer in answers:
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": "next"}]
    for turn in range(10):
        status, headers, body = post(
            "/chat/completions", {"model": "toy", "messages": messages}, {"x-retry-count": str(turn)}
        )
        if status == 200:
            said: str = json.loads(body)["choices"][0]["message"]["content"]
            return said
        if status != TOO_MANY_REQUESTS or not patient:
            break
        time.sleep(int(headers["retry-after-ms"]) / 1000)
    raise Refused(f"{status}: {body!r}")


MODEL, SERVICES = "OPENAI_BASE_URL", "CHAOS_SERVICES_URL"


def post(
    path: str, body: object, headers: dict[str, str], where: str = MODEL
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Return status, headers and body of the answer."""
    url = urlsplit(os.environ[where])
    connection = http.client.HTTPConnection(url.netloc)
    connection.request("POST", url.path + path, json.dumps(body), headers)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()
