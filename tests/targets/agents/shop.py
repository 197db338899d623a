"""An agent as people write them: it charges a card by a form, as payment SDKs do, or by a tool of an MCP server.

It asks again when no answer comes. KEYED=yes: each charge has its idempotency key. MCP=yes: its tools are a process.
"""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

DONE = os.path.join(os.environ["CHAOS_DURABLE"], "done")
ORDERS = ("A-1", "A-2")
KEYED = os.environ.get("KEYED") == "yes"
TRIES = 6


def think(done):
    body = {"model": "any", "messages": [{"role": "user", "content": "Charge the card."}]}
    body["messages"] += [{"role": "assistant", "content": order} for order in done]
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


def by_form(order):
    form = urllib.parse.urlencode({"order": order, "amount": "120"}).encode()
    headers = {"Once": order} if KEYED else {}
    request = urllib.request.Request(os.environ["PAY_API_BASE"] + "/v1/charges", form, headers)
    with urllib.request.urlopen(request, timeout=1) as answer:
        return json.load(answer)["id"]


def by_tool(order):
    tools = subprocess.Popen(
        [sys.executable, "-m", "chaos.mcp", os.environ["PAY_TOOLS"]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    params = {"name": "pay_charge", "arguments": {"order": order, "amount": "120"}}
    if KEYED:
        params["_meta"] = {"idempotencyKey": order}
    said, _ = tools.communicate(
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}) + "\n"
    )
    reply = json.loads(said)
    if "error" in reply:
        raise ConnectionError(reply["error"]["message"])
    return reply["result"]["structuredContent"]["id"]


def charge(order):
    for number in range(TRIES):
        try:
            return by_tool(order) if os.environ.get("MCP") == "yes" else by_form(order)
        except (ConnectionError, TimeoutError, urllib.error.URLError):
            time.sleep(0.1 * number)
    sys.exit("no answer")


def main():
    done = []
    if os.path.exists(DONE):
        with open(DONE) as file:
            done = file.read().split()
    for order in ORDERS[len(done) :]:
        assert think(done) == order
        assert charge(order) == "ch_" + order
        done.append(order)
        with open(DONE, "a") as file:
            file.write(order + "\n")


main()
