"""The declared operations of services as tools of a Model Context Protocol server, over streamable HTTP.

It keeps no session: each request stands for itself, so that an agent that was killed and resumes finds it as it was.
A call of a tool is a call of its operation, in the same ledger, with the same faults. What there is of the protocol:
initialize, ping, tools/list and tools/call; replies are whole, never streams.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from email.message import Message as Headers
from typing import Any, NamedTuple

import msgspec

from chaos.errors import did_you_mean
from chaos.world.listener import Response
from chaos.world.routes import MCP, Called, Endpoint
from chaos.world.services import Served
from chaos.world.tokens import canonical

PATH = f"/services/{MCP}"
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # that begin with `initialize`, newest first
VERSION_HEADER = "MCP-Protocol-Version"
KEY = "idempotencyKey"  # in `_meta` of a call: the protocol has no place of its own for it

# Codes of JSON-RPC 2.0, section 5.1, and one of MCP.
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
UNSUPPORTED_VERSION = -32022


class Wrong(Exception):
    """A request that is answered with an error of the protocol, and over HTTP with *status*."""

    def __init__(self, code: int, message: str, status: int = 200, data: object = None) -> None:
        self.code, self.status, self.data = code, status, data
        super().__init__(message)


class _Request(NamedTuple):
    id: str | int
    method: str
    params: dict[str, Any]


def respond(
    method: str, headers: Headers, body: bytes, tools: Sequence[Endpoint],
    call: Callable[[Called, Callable[[Served], Response]], Response],
) -> Response:  # fmt: skip
    """Return the response to one HTTP request.

    Args:
        tools: the operations.
        call: makes a call, and returns the response that is rendered from what it is answered.
    """
    if method != "POST":
        told = _error(None, INVALID_REQUEST, f"{method} opens a stream or ends a session, and there are none: use POST")
        return Response(405, told, (("Allow", "POST"),))
    id = None
    try:
        request = _parsed(body)
        if request is None:  # a notification, or the answer to a request that was never made
            return Response(202, b"")
        id = request.id
        version = headers.get(VERSION_HEADER, VERSIONS[0])
        if version not in VERSIONS:
            data = {"supported": VERSIONS, "requested": version}
            raise Wrong(UNSUPPORTED_VERSION, f"Unsupported protocol version: {version}", 400, data)
        if request.method == "tools/call":
            return call(_called(request, headers, tools), lambda served: _result(request.id, _told(served)))
        return _result(request.id, _answer(request, tools))
    except Wrong as wrong:
        return Response(wrong.status, _error(id, wrong.code, str(wrong), wrong.data))


def _parsed(body: bytes) -> _Request | None:
    """Return the request in *body*, None if it is a message that is not answered."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Wrong(PARSE_ERROR, f"Parse error: {error}", 400) from None
    if not isinstance(said, dict) or said.get("jsonrpc") != "2.0":
        raise Wrong(INVALID_REQUEST, 'a message is one JSON object with "jsonrpc": "2.0"', 400)
    if "method" not in said and ("result" in said or "error" in said):
        return None
    method, params, id = said.get("method"), said.get("params"), said.get("id")
    if not isinstance(method, str):
        raise Wrong(INVALID_REQUEST, "method is a text", 400)
    if "id" not in said:
        return None
    if isinstance(id, bool) or not isinstance(id, str | int):
        raise Wrong(INVALID_REQUEST, "id is a text or a whole number", 400)
    if params is not None and not isinstance(params, dict):
        raise Wrong(INVALID_REQUEST, "params is an object", 400)
    return _Request(id, method, params or {})


def _answer(request: _Request, tools: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the result of a request that calls nothing."""
    if request.method == "initialize":
        wanted = request.params.get("protocolVersion")
        return {
            "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "pytest-chaos", "version": "1"},
        }
    if request.method == "ping":
        return {}
    if request.method == "tools/list":
        if request.params.get("cursor") is not None:
            raise Wrong(INVALID_PARAMS, "there is one page of tools, without a cursor")
        return {"tools": [_tool(one) for one in tools]}
    known = ("initialize", "ping", "tools/list", "tools/call")
    raise Wrong(METHOD_NOT_FOUND, f"Method not found: {request.method}; {did_you_mean(request.method, known)}")


def _tool(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "name": endpoint.tool,
        "description": endpoint.description or endpoint.route or endpoint.name,
        "inputSchema": {"type": "object", "additionalProperties": True},
        "annotations": {"readOnlyHint": not endpoint.effect},
    }


def _called(request: _Request, headers: Headers, tools: Sequence[Endpoint]) -> Called:
    """Return the call that tools/call asks for; a tool may be called by its operation's declared name too."""
    name, arguments = request.params.get("name"), request.params.get("arguments")
    found = next((one for one in tools if name in (one.tool, one.name)), None)
    if found is None:
        raise Wrong(INVALID_PARAMS, f"Unknown tool: {name}; {did_you_mean(str(name), [one.tool for one in tools])}")
    if arguments is not None and not isinstance(arguments, dict):
        raise Wrong(INVALID_PARAMS, "arguments is an object")
    meta = request.params.get("_meta")
    key = meta.get(KEY) if isinstance(meta, dict) else None
    if key is not None and not isinstance(key, str):
        raise Wrong(INVALID_PARAMS, f"_meta.{KEY} is a text")
    given = key if key is not None else headers.get(found.key) if found.key else None
    return Called(found.service, found.operation, canonical(arguments or {}), given if found.key else None)


def _told(served: Served) -> dict[str, Any]:
    """Return the result of a call: a refusal by the service is a result that says so, for the model to read."""
    return {
        "content": [{"type": "text", "text": served.body.decode()}],
        "structuredContent": msgspec.Raw(served.body),
        "isError": served.status >= 400,
    }


def _result(id: str | int, result: object) -> Response:
    return Response(200, msgspec.json.encode({"jsonrpc": "2.0", "id": id, "result": result}))


def _error(id: str | int | None, code: int, message: str, data: object = None) -> bytes:
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": error})
