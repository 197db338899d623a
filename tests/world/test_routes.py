"""Routes of declared services: over a real socket, as clients of the real services call them."""

from __future__ import annotations

import http.client
import json
import string
from collections.abc import Callable, Iterator, Mapping
from email.message import Message as Headers
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.events.seen import Effected
from chaos.journal import Journal
from chaos.targets.command.script import Route, Script, endpoints, filled
from chaos.world.routes import Endpoint, NotServed, Routes, mistakes, pairs
from chaos.world.server import World
from chaos.world.services import identity

SHOP = {
    "shop.charge": Route(
        {"id": "ch_{amount}", "amount": "{amount}", "status": "paid"}, 201, route="POST /v1/charges", key="X-Once"
    ),
    "shop.look": Route({"id": "{id}", "expand": "{expand}"}, route="GET /v1/charges/{id}"),
    "shop.search": Route({"data": []}, route="GET /v1/charges/search"),
    "shop.refund": Route({"of": "{id}"}, route="POST /v1/charges/{id}/refunds", key=""),
    "shop.forget": Route({}, 204, route="DELETE /v1/charges/{id}"),
    "mail.send": Route({"sent": True}),
}
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}

Ask = Callable[..., tuple[int, Any, Mapping[str, str]]]


@pytest.fixture
def ask(journal: Journal) -> Iterator[Ask]:
    with World(Script((), SHOP, ""), journal) as world:

        def asked(method: str, path: str, body: Any = b"", **headers: str) -> tuple[int, Any, Mapping[str, str]]:
            client = http.client.HTTPConnection("127.0.0.1", world.port, timeout=5)
            sent = body if isinstance(body, bytes) else json.dumps(body).encode()
            named = {name.replace("_", "-"): text for name, text in headers.items()}
            client.request(method, f"/services{path}", sent, named)
            response = client.getresponse()
            content = response.read()
            client.close()
            return response.status, json.loads(content or b"null"), dict(response.headers)

        yield asked
        assert world.failure is None


def ledger(journal: Journal) -> list[tuple[str, str | None, bool]]:
    return [(one.identity, one.key, one.deduplicated) for one in journal.events if isinstance(one, Effected)]


def test_a_form_and_json_are_the_same_call_if_their_values_are(ask: Ask, journal: Journal) -> None:
    form = urlencode({"amount": "120", "currency": "eur"}).encode()
    assert ask("POST", "/shop/v1/charges", form, **FORM)[:2] == (
        201,
        {"id": "ch_120", "amount": "120", "status": "paid"},
    )
    ask("POST", "/shop/v1/charges", {"currency": "eur", "amount": "120"}, **JSON)
    ask("POST", "/shop/charge", {"currency": "eur", "amount": "120"})
    name = identity("shop", "charge", {"amount": "120", "currency": "eur"})
    assert ledger(journal) == [(name, None, False)] * 3


def test_json_that_a_client_calls_a_form_is_json(ask: Ask) -> None:
    """As urllib does with every body."""
    assert ask("POST", "/shop/v1/charges", {"amount": 120}, **FORM)[1]["amount"] == 120


def test_the_key_is_in_the_header_that_is_declared(ask: Ask, journal: Journal) -> None:
    for header in ({"X_Once": "k"}, {"X_Once": "k"}, {"Idempotency_Key": "other"}):
        ask("POST", "/shop/v1/charges", {"amount": 1}, **header)
    ask("POST", "/shop/charge", {"amount": 1}, X_Once="k")  # the same operation by its other address
    assert [line[1:] for line in ledger(journal)] == [("k", False), ("k", True), (None, False), ("k", True)]
    for _ in range(2):
        ask("POST", "/shop/v1/charges/ch_1/refunds", b"", Idempotency_Key="k", X_Once="k")
    assert [line[1:] for line in ledger(journal)][4:] == [(None, False)] * 2, "it knows no keys"


def test_a_get_is_no_effect_and_its_path_and_query_are_its_values(ask: Ask, journal: Journal) -> None:
    assert ask("GET", "/shop/v1/charges/ch%2F1?expand=a&expand=b")[:2] == (200, {"id": "ch/1", "expand": ["a", "b"]})
    assert ask("GET", "/shop/v1/charges/search")[:2] == (200, {"data": []}), "a fixed path comes before a variable one"
    assert ledger(journal) == []
    assert ask("DELETE", "/shop/v1/charges/ch_1")[0] == 204
    assert ledger(journal) == [(identity("shop", "forget", {"id": "ch_1"}), None, False)]


def test_the_path_s_values_come_before_the_body_s_and_the_query_s(ask: Ask, journal: Journal) -> None:
    assert ask("POST", "/shop/v1/charges/ch_1/refunds?id=q&why=q&by=q", {"id": "b", "why": "b"})[1] == {"of": "ch_1"}
    assert ledger(journal)[0][0] == identity("shop", "refund", {"id": "ch_1", "why": "b", "by": "q"})


def test_a_value_that_the_reply_tells_and_the_call_has_not(ask: Ask, journal: Journal) -> None:
    status, body, _ = ask("POST", "/shop/v1/charges", {"amonut": 1})
    assert status == 400
    assert body["error"]["message"] == "the call has no 'amount', which its reply tells; did you mean 'amonut'?"
    assert ledger(journal) == []


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "told"),
    [
        (
            "POST",
            "/shop/v1/chargess",
            {},
            {},
            404,
            "did you mean 'POST /v1/charges'? (declared: DELETE /v1/charges/{id}, ",
        ),
        ("POST", "/shpo/v1/charges", {}, {}, 404, "no service 'shpo' is declared; did you mean 'shop'?"),
        ("POST", "/mail/sned", {}, {}, 404, "the service 'mail' has no POST /sned; did you mean 'POST /send'?"),
        ("GET", "/mail/send", b"", {}, 404, "the service 'mail' has no GET /send"),
        ("PUT", "/shop/v1/charges", {}, {}, 405, "has no PUT /v1/charges; did you mean 'POST /v1/charges'?"),
        ("POST", "/shop/v1/charges", b"[1]", JSON, 400, "must be a JSON object, or a form"),
        ("POST", "/shop/v1/charges", b"amount=1", {}, 400, "must be a JSON object, or a form"),
        ("POST", "/shop/v1/charges", b"--x", {"Content-Type": "multipart/form-data; boundary=x"}, 415, "multipart"),
    ],
)
def test_what_is_not_served_is_told(
    ask: Ask, journal: Journal, method: str, path: str, body: Any, headers: Any, status: int, told: str
) -> None:
    got, answer, named = ask(method, path, body, **headers)
    assert got == status and told in answer["error"]["message"], answer
    assert (named.get("Allow") == "POST") == (status == 405)
    assert ledger(journal) == []


@pytest.mark.parametrize(
    ("services", "told"),
    [
        ({"shop.pay": Route(route="charges")}, "shop.pay: a route is METHOD /PATH, as POST /v1/charges"),
        ({"shop.pay": Route(route="FETCH /x")}, "(got 'FETCH /x'; methods: GET, POST, PUT, PATCH, DELETE)"),
        ({"shop.pay": Route(route="GET /x/{}")}, "a route is METHOD /PATH"),
        ({"shop.pay": Route(route="GET /{a}/{a}")}, "need names of their own"),
        ({"shop.pay": Route(route="GET /{1}")}, "need names of their own"),
        ({"shop.pay": Route(key="Idempotency Key")}, "key is the name of a header"),
        ({"mcp.pay": Route()}, "no service is called mcp"),
        ({"a.b": Route(route="GET /{x}"), "a.c": Route(route="GET /{y}")}, "a.c and a.b cannot be told apart"),
        ({"a_b.c": Route(), "a.b_c": Route()}, "a.b_c and a_b.c cannot be told apart: both are a_b_c"),
        ({"a.b": Route(), "a.c": Route(route="POST /b")}, "a.c: its route is where a.b is called already: POST /b"),
    ],
)
def test_routes_that_cannot_be(services: Mapping[str, Route], told: str) -> None:
    (wrong,) = mistakes(endpoints(services))
    assert told in wrong


def test_routes_that_can_be() -> None:
    assert mistakes(endpoints(SHOP)) == []


_NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=4)


@given(st.lists(st.tuples(_NAMES, st.text(min_size=1).filter(lambda text: text.isprintable())), max_size=4))
def test_the_values_of_a_path_are_those_that_were_put_into_it(parts: list[tuple[str, str]]) -> None:
    route = "GET /" + "/".join(f"x/{{{name}{place}}}" for place, (name, _) in enumerate(parts))
    path = "/services/shop/" + "/".join(f"x/{quote(value, safe='')}" for _, value in parts)
    called = Routes([Endpoint("shop", "look", route)]).called("GET", path, "", Headers(), b"")
    assert json.loads(called.body) == {f"{name}{place}": value for place, (name, value) in enumerate(parts)}


@given(st.text(), st.binary())
def test_no_path_and_no_body_breaks_it(path: str, body: bytes) -> None:
    routes, headers = Routes(endpoints(SHOP)), Headers()
    headers["Content-Type"] = FORM["Content-Type"]
    for below in (path, "/v1/charges"):
        try:
            json.loads(routes.called("POST", f"/services/shop{below}", "", headers, body).body)
        except NotServed as wrong:
            assert wrong.status in (400, 404)


@given(st.dictionaries(st.text(string.ascii_letters, min_size=1), st.lists(st.text(string.printable), min_size=1)))
def test_a_form_s_values_are_those_that_were_put_into_it(values: dict[str, list[str]]) -> None:
    told = {name: one if len(one) > 1 else one[0] for name, one in values.items()}
    assert pairs(urlencode(values, doseq=True)) == told


def test_what_a_reply_tells() -> None:
    payload = {"amount": 120, "to": {"name": "Ada"}, "who": "{amount}"}
    assert filled("{amount}", payload) == 120
    assert filled("{to}", payload) == {"name": "Ada"}
    assert filled(["paid {amount} by {who}", {"{amount}": "{to}"}], payload) == [
        "paid 120 by {amount}",  # what a value says is not looked into
        {"{amount}": {"name": "Ada"}},
    ]
    assert filled("{{amount}} is {amount}, {} {a b} {amount.real} {0:9}", payload) == (
        "{amount} is 120, {} {a b} {amount.real} {0:9}"
    )
    assert filled("{{amount}}", payload) == "{amount}"


@given(st.text(string.printable), st.dictionaries(st.from_regex(r"\w{1,5}", fullmatch=True), st.text()))
def test_a_reply_tells_values_and_nothing_more(reply: str, payload: dict[str, str]) -> None:
    try:
        text = filled(f"{reply}.", payload)
    except ValueError as wrong:
        assert "which its reply tells" in str(wrong)
    else:
        assert isinstance(text, str)
        if "{" not in reply:
            assert text == f"{reply}."
