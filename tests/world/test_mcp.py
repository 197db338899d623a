"""The MCP server: by the words of the protocol, by the official client, over HTTP and over stdio."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chaos.events.seen import Effected, Spoiled
from chaos.journal import Journal
from chaos.targets.command.script import Route, Script
from chaos.world.mishaps import Lose
from chaos.world.server import World
from chaos.world.services import identity

SHOP = {
    "shop.charge": Route({"paid": "{amount}"}, 201, route="POST /v1/charges", description="Charge a card."),
    "shop.look": Route({"error": {"message": "no such charge"}}, 404, route="GET /v1/charges/{id}"),
    "mail.send": Route({"sent": True}, key=""),
}
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}

Ask = Callable[..., tuple[int, Any]]


@pytest.fixture
def world(journal: Journal) -> Iterator[World]:
    with World(Script((), SHOP, ""), journal) as world:
        yield world
        assert world.failure is None


@pytest.fixture
def url(world: World) -> str:
    return world.env()["CHAOS_SERVICES_URL"] + "/mcp"


@pytest.fixture
def ask(world: World) -> Ask:
    def asked(message: Any, method: str = "POST", **headers: str) -> tuple[int, Any]:
        client = http.client.HTTPConnection("127.0.0.1", world.port, timeout=5)
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        client.request(method, "/services/mcp", body, {name.replace("_", "-"): text for name, text in headers.items()})
        response = client.getresponse()
        content = response.read()
        client.close()
        return response.status, json.loads(content or b"null")

    return asked


def request(method: str, params: Any = None, id: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})}


def call(name: str, arguments: Any = None, **meta: Any) -> dict[str, Any]:
    return request("tools/call", {"name": name, "arguments": arguments, **({"_meta": meta} if meta else {})})


def ledger(journal: Journal) -> list[tuple[str, str | None, bool]]:
    return [(one.identity, one.key, one.deduplicated) for one in journal.events if isinstance(one, Effected)]


def test_it_introduces_itself_in_a_version_that_both_know(ask: Ask) -> None:
    for wanted, given in (("2025-06-18", "2025-06-18"), ("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")):
        status, said = ask(request("initialize", {**INITIALIZE, "protocolVersion": wanted}, id="a"))
        assert (status, said["id"], said["result"]["protocolVersion"]) == (200, "a", given)
        assert said["result"]["capabilities"] == {"tools": {}}
    assert ask({"jsonrpc": "2.0", "method": "notifications/initialized"}) == (202, None)
    assert ask(request("ping")) == (200, {"jsonrpc": "2.0", "id": 1, "result": {}})


def test_the_operations_are_its_tools(ask: Ask) -> None:
    tools = {tool["name"]: tool for tool in ask(request("tools/list"))[1]["result"]["tools"]}
    assert list(tools) == ["shop_charge", "shop_look", "mail_send"]
    assert tools["shop_charge"]["description"] == "Charge a card."
    assert tools["shop_look"]["description"] == "GET /v1/charges/{id}"
    assert [tool["annotations"]["readOnlyHint"] for tool in tools.values()] == [False, True, False]
    assert all(tool["inputSchema"]["type"] == "object" for tool in tools.values())


def test_a_call_is_in_the_ledger_like_any_other(ask: Ask, journal: Journal) -> None:
    status, said = ask(call("shop_charge", {"amount": 3}, idempotencyKey="k"))
    assert status == 200 and said["result"] == {
        "content": [{"type": "text", "text": '{"paid":3}'}],
        "structuredContent": {"paid": 3},
        "isError": False,
    }
    ask(call("shop.charge", {"amount": 3}), Idempotency_Key="k")
    ask(call("mail_send", None, idempotencyKey="k"))
    ask(call("mail_send"), Idempotency_Key="k")
    charge, mail = identity("shop", "charge", {"amount": 3}), identity("mail", "send", {})
    assert ledger(journal) == [(charge, "k", False), (charge, "k", True), (mail, None, False), (mail, None, False)]


def test_what_a_service_refuses_is_a_result_for_the_model(ask: Ask, journal: Journal) -> None:
    result = ask(call("shop_look", {"id": "ch_1"}))[1]["result"]
    assert result["isError"] and result["structuredContent"] == {"error": {"message": "no such charge"}}
    result = ask(call("shop_charge", {}))[1]["result"]
    assert result["isError"] and "the call has no 'amount'" in result["content"][0]["text"]
    assert ledger(journal) == []


@pytest.mark.parametrize(
    ("message", "status", "code", "told"),
    [
        (b"{", 400, -32700, "Parse error"),
        (b"[" * 100_000, 400, -32700, "Parse error"),
        ([request("ping")], 400, -32600, "one JSON object"),
        ({"id": 1, "method": "ping"}, 400, -32600, "jsonrpc"),
        ({"jsonrpc": "2.0", "id": 1}, 400, -32600, "method"),
        (request("ping", id=None), 400, -32600, "id"),
        (request("ping", id=True), 400, -32600, "id"),
        (request("ping", [1]), 400, -32600, "params"),
        (request("tool/call"), 200, -32601, "Method not found: tool/call; did you mean 'tools/call'?"),
        (request("tools/list", {"cursor": "2"}), 200, -32602, "one page"),
        (call("shop_chrage"), 200, -32602, "Unknown tool: shop_chrage; did you mean 'shop_charge'?"),
        (request("tools/call"), 200, -32602, "Unknown tool: None; known: mail_send, shop_charge, shop_look"),
        (call("shop_charge", [1]), 200, -32602, "arguments is an object"),
        (call("shop_charge", {}, idempotencyKey=1), 200, -32602, "_meta.idempotencyKey is a text"),
    ],
)
def test_errors_are_the_protocol_s(ask: Ask, journal: Journal, message: Any, status: int, code: int, told: str) -> None:
    got, said = ask(message)
    assert (got, said["error"]["code"]) == (status, code) and told in said["error"]["message"], said
    assert ledger(journal) == []


def test_a_version_that_it_does_not_speak_and_a_stream_that_it_does_not_have(ask: Ask) -> None:
    status, said = ask(request("ping"), MCP_Protocol_Version="2026-07-28")
    assert (status, said["error"]["code"], said["id"]) == (400, -32022, 1)
    assert "2025-11-25" in said["error"]["data"]["supported"]
    assert ask(b"", "GET")[0] == ask(b"", "DELETE")[0] == 405
    assert ask({"jsonrpc": "2.0", "id": 1, "result": {}}) == (202, None)


def test_a_target_without_declared_services_has_no_tools(stage: Any) -> None:
    client = http.client.HTTPConnection("127.0.0.1", stage.world.port, timeout=5)
    client.request("POST", "/services/mcp", json.dumps(request("tools/list")))
    assert client.getresponse().status == 404
    client.close()


# -- over stdio


def bridge(*arguments: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "chaos.mcp", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], **env},
    )


def test_lines_go_in_and_come_out(world: World, journal: Journal) -> None:
    lines = [
        json.dumps(request("initialize", INITIALIZE, id="a")),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        "",
        json.dumps(call("shop_charge", {"amount": 3})),
        "{",
    ]
    process = bridge(CHAOS_SERVICES_URL=world.env()["CHAOS_SERVICES_URL"])
    out, errors = process.communicate("\n".join(lines) + "\n", timeout=20)
    replies = {json.dumps(said.get("id")): said for said in map(json.loads, out.splitlines())}
    assert replies.keys() == {'"a"', "1", "null"} and not errors and process.returncode == 0
    assert replies["1"]["result"]["structuredContent"] == {"paid": 3}
    assert replies["null"]["error"]["code"] == -32700
    assert ledger(journal) == [(identity("shop", "charge", {"amount": 3}), None, False)]


def test_a_reply_that_is_lost_is_an_error_and_nothing_is_sent_again(world: World, url: str, journal: Journal) -> None:
    world.mishaps.arm(Lose(), 1, "services")
    process = bridge(url)
    out, _ = process.communicate(json.dumps(call("mail_send", {"to": "Ada"})) + "\n", timeout=20)
    error = json.loads(out)["error"]
    assert error["code"] == -32603 and "whether the call was done is not known" in error["message"]
    assert len(ledger(journal)) == 1
    assert [(one.how, one.link) for one in journal.events if isinstance(one, Spoiled)] == [("lost", "services")]


def test_it_says_what_it_lacks(world: World) -> None:
    process = bridge()
    assert "or set CHAOS_SERVICES_URL" in process.communicate(timeout=20)[1] and process.returncode == 2
    process = bridge("http://127.0.0.1:9/services/mcp")  # nobody listens there
    out, _ = process.communicate(json.dumps(request("ping")) + "\n", timeout=20)
    assert "ConnectionRefusedError" in json.loads(out)["error"]["message"]


# -- the official client


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_the_official_client(transport: str, url: str, journal: Journal) -> None:
    mcp = pytest.importorskip("mcp", reason="the official client is not installed: pip install mcp")
    if not hasattr(mcp, "Client"):
        pytest.skip("the official client has no Client before mcp 2")
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def talk() -> None:
        server = StdioServerParameters(command=sys.executable, args=["-m", "chaos.mcp", url])
        async with Client(url if transport == "http" else stdio_client(server)) as client:
            assert client.protocol_version == "2025-11-25"
            assert [tool.name for tool in (await client.list_tools()).tools] == [
                "shop_charge",
                "shop_look",
                "mail_send",
            ]
            paid = await client.call_tool("shop_charge", {"amount": 120})
            assert paid.structured_content == {"paid": 120} and not paid.is_error
            assert (await client.call_tool("shop_look", {"id": "ch_1"})).is_error

    asyncio.run(asyncio.wait_for(talk(), 30))
    assert ledger(journal) == [(identity("shop", "charge", {"amount": 120}), None, False)]
