"""`python -m chaos.mcp [URL]`: the MCP server of a run over stdio, for agents that start their tools as a process.

A thin bridge: each line that comes in is sent to the server at URL over HTTP, and its reply is a line that goes out.
Without URL it is CHAOS_SERVICES_URL/mcp. It remembers nothing and repeats nothing. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from http.client import HTTPConnection, HTTPException
from typing import Any, TextIO
from urllib.parse import urlsplit

INTERNAL_ERROR = -32603  # JSON-RPC 2.0, section 5.1
BROKEN = "the connection to the services broke, and whether the call was done is not known"


def main(arguments: list[str]) -> int:
    """Pass messages on until the input ends; wait for the replies that are still to come."""
    services = os.environ.get("CHAOS_SERVICES_URL", "")
    url = arguments[0] if arguments else services and f"{services}/mcp"
    if not url:
        print("python -m chaos.mcp URL: the address of the MCP server; or set CHAOS_SERVICES_URL", file=sys.stderr)
        return 2
    waiting = []
    out = _Lines(sys.stdout)
    for line in sys.stdin:
        if line.strip():
            # sent here, so that messages arrive in their order; one that is answered late holds up no other
            thread = threading.Thread(target=_answered, args=(_sent(url, line), line, out))
            thread.start()
            waiting.append(thread)
    for thread in waiting:
        thread.join()
    return 0


class _Lines:
    """Writes whole lines from several threads."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._lock = stream, threading.Lock()

    def write(self, text: str) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError):  # nobody reads any more
            self._stream.write(text + "\n")
            self._stream.flush()


def _sent(url: str, line: str) -> HTTPConnection | OSError:
    """Send *line*; return the connection on which the reply comes, or why it could not be sent."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    try:
        connection.request("POST", parts.path, line.encode(), headers)
    except OSError as error:
        connection.close()
        return error
    return connection


def _answered(sent: HTTPConnection | OSError, line: str, out: _Lines) -> None:
    """Write the reply to *line*, or an error of the protocol if there is none."""
    try:
        if isinstance(sent, OSError):
            raise sent
        with contextlib.closing(sent):
            body = sent.getresponse().read().decode()
        if body:
            reply = json.loads(body)
            if "jsonrpc" in reply:
                out.write(json.dumps(reply))
            else:
                _fail(line, body, out)
    except (OSError, HTTPException, ValueError) as error:
        _fail(line, f"{BROKEN}: {type(error).__name__}: {error}", out)


def _fail(line: str, message: str, out: _Lines) -> None:
    """Write *message* as the error that answers the request in *line*, if that is one."""
    try:
        asked: Any = json.loads(line)
    except ValueError:
        asked = None
    if isinstance(asked, dict) and "id" in asked and "method" in asked:
        error = {"code": INTERNAL_ERROR, "message": message}
        out.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
