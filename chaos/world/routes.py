"""How agents call the operations of services: at NAME/OPERATION, and at HTTP routes as the real service has them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.message import Message as Headers
from functools import cached_property
from typing import Any, Protocol, runtime_checkable
from urllib.parse import parse_qsl, unquote

import msgspec

from chaos.errors import did_you_mean
from chaos.world.tokens import canonical

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
READING = frozenset({"GET", "HEAD"})  # safe methods: they are not to change anything (RFC 9110, section 9.2.1)
KEY = "Idempotency-Key"
FORM = "application/x-www-form-urlencoded"
MCP = "mcp"  # not a service's name: the MCP server is there

_ROUTE = re.compile(rf"({'|'.join(METHODS)}) (/\S*)")
_PART = re.compile(r"\{(\w+)\}")
_PLACE = re.compile(r"/services/([A-Za-z0-9_.-]+)(/.*)?", re.DOTALL)
_OPERATION = re.compile(r"/([A-Za-z0-9_.-]+)")
_object = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True)
class Endpoint:
    """One operation of a service, as those that call it see it.

    Args:
        route: "POST /v1/charges/{id}"; "" if it is called at NAME/OPERATION only.
        key: the header with the idempotency key; "" if it knows none.
        description: what it does, for a model that may call it as a tool.
        effect: whether it changes the outside world.
    """

    service: str
    operation: str
    route: str = ""
    key: str = KEY
    description: str = ""
    effect: bool = True

    @property
    def name(self) -> str:
        """As it is declared."""
        return f"{self.service}.{self.operation}"

    @property
    def tool(self) -> str:
        """As a tool is called: models' providers allow no dots in its name."""
        return f"{self.service}_{self.operation}"

    @property
    def method(self) -> str:
        """Of HTTP, "" without a route."""
        return self.route.partition(" ")[0]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the paths of its route, the values of their variable parts in groups of their names."""
        literal = _PART.split(self.route.partition(" ")[2])
        parts = (f"(?P<{part}>[^/]+)" if place % 2 else re.escape(part) for place, part in enumerate(literal))
        return re.compile("".join(parts))

    @property
    def shape(self) -> str:
        """Its route without the names of its variable parts: two with the same one cannot be told apart."""
        return _PART.sub("{}", self.route)


@dataclass(frozen=True)
class Called:
    """A call of an operation: *body* is the payload, a JSON object; *key* the idempotency key, if there is one."""

    service: str
    operation: str
    body: bytes
    key: str | None


@runtime_checkable
class Routed(Protocol):
    """What a brain has besides whose operations are declared: routes lead to them, and they are tools of MCP."""

    def endpoints(self) -> Sequence[Endpoint]:
        """Return them all; what is not among them is not served."""
        ...


class NotServed(Exception):
    """A request that no operation answers, with the *status* that says so; *allowed* are the methods that would do."""

    def __init__(self, status: int, message: str, allowed: Sequence[str] = ()) -> None:
        self.status, self.allowed = status, allowed
        super().__init__(message)


def mistakes(endpoints: Sequence[Endpoint]) -> list[str]:
    """Return what is wrong with the routes of *endpoints*, and where they contradict each other."""
    wrong = []
    known: dict[str, str] = {}
    for one in endpoints:
        names = _PART.findall(one.route)
        literal = _PART.sub("", one.route)
        if one.service == MCP:
            wrong.append(f"{one.name}: no service is called {MCP}: the MCP server answers there")
        if one.route and (not _ROUTE.fullmatch(one.route) or {"{", "}", "?", "#"} & set(literal)):
            told = f"{one.name}: a route is METHOD /PATH, as POST /v1/charges or GET /v1/charges/{{id}} "
            wrong.append(f"{told}(got {one.route!r}; methods: {', '.join(METHODS)})")
        elif len(set(names)) < len(names) or any(not name.isidentifier() for name in names):
            wrong.append(f"{one.name}: the variable parts of {one.route!r} need names of their own, as {{id}}")
        if one.key and not re.fullmatch(r"[\w-]+", one.key, re.ASCII):
            wrong.append(f"{one.name}: key is the name of a header, as {KEY} (got {one.key!r})")
        for told in (one.tool, *((f"{one.service}: {one.shape}",) if one.route else ())):
            if other := known.get(told):
                wrong.append(f"{one.name} and {other} cannot be told apart: both are {told}")
            known[told] = one.name
        taken = f"/{one.operation}"
        wrong += (
            f"{other.name}: its route is where {one.name} is called already: {other.route}"
            for other in endpoints
            if other is not one and other.service == one.service and other.route == f"POST {taken}"
        )
    return wrong


class Routes:
    """Finds the operation that a request is for.

    Args:
        endpoints: those that are declared; None if everything at NAME/OPERATION is served.
    """

    def __init__(self, endpoints: Sequence[Endpoint] | None) -> None:
        self.endpoints = endpoints
        # /charges/search is looked for before /charges/{id}
        self._routed = sorted(
            (one for one in endpoints or () if one.route),
            key=lambda one: ["{" in part for part in one.shape.split("/")],
        )
        self._named = {(one.service, one.operation): one for one in endpoints or ()}

    def called(self, method: str, path: str, query: str, headers: Headers, body: bytes) -> Called:
        """Return the call that a request is.

        Args:
            path: from /services on, without its query.

        Raises:
            NotServed: nothing that is declared answers it.
        """
        found = _PLACE.fullmatch(path)
        if found is None:
            raise NotServed(404, f"Invalid URL ({method} {path})")
        service, below = found[1], found[2] or "/"
        plain = _OPERATION.fullmatch(below) if method == "POST" else None
        named = self._named.get((service, plain[1])) if plain else None
        if plain and (self.endpoints is None or (named and named.route != f"POST {below}")):
            return Called(service, plain[1], body, _key(named or Endpoint(service, plain[1]), headers))
        for one in self._routed:
            values = one.pattern.fullmatch(below) if (one.service, one.method) == (service, method) else None
            if values:
                parts = {name: unquote(value) for name, value in values.groupdict().items()}
                payload = {**pairs(query), **_payload(headers, body), **parts}
                return Called(service, one.operation, canonical(payload), _key(one, headers))
        raise self._not_served(method, service, below)

    def _not_served(self, method: str, service: str, below: str) -> NotServed:
        """Return what is said about a request that nothing answers."""
        if self.endpoints is None:
            return NotServed(404, f"Invalid URL ({method} /services/{service}{below})")
        own = [one for one in self.endpoints if one.service == service]
        if not own:
            services = {one.service for one in self.endpoints}
            return NotServed(404, f"no service {service!r} is declared; {did_you_mean(service, services)}")
        other = [one.method for one in own if one.route and one.pattern.fullmatch(below)]
        known = [f"POST /{one.operation}" for one in own] + [one.route for one in own if one.route]
        asked = f"{method} {below}"
        near = did_you_mean(asked, known)
        declared = "" if near.startswith("known") else f" (declared: {', '.join(sorted(known))})"
        return NotServed(405 if other else 404, f"the service {service!r} has no {asked}; {near}{declared}", other)


def routes_of(brain: object) -> Routes:
    """Return the routes to what *brain* serves."""
    return Routes(brain.endpoints() if isinstance(brain, Routed) else None)


def pairs(text: str) -> dict[str, Any]:
    """Return the values of a query or a form by their names; a name that is there several times has a list."""
    found: dict[str, list[str]] = {}
    for name, value in parse_qsl(text, keep_blank_values=True, errors="replace"):
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _payload(headers: Headers, body: bytes) -> Mapping[str, Any]:
    """Return what the *body* of a request says: a form is one only if it does not look like a JSON object.

    Some clients (`urllib`) call every body a form, and no form begins with a brace: it would be encoded.
    """
    if not body.strip():
        return {}
    kind = headers.get_content_type() if "Content-Type" in headers else ""
    if kind == FORM and not body.lstrip().startswith(b"{"):
        return pairs(body.decode(errors="replace"))
    if kind.startswith("multipart/"):
        raise NotServed(415, f"a body is a JSON object or a form ({FORM}), not {kind}")
    try:
        return _object.decode(body)
    except (msgspec.MsgspecError, RecursionError) as wrong:
        raise NotServed(400, f"The body must be a JSON object, or a form that says so ({FORM}): {wrong}") from None


def _key(endpoint: Endpoint, headers: Headers) -> str | None:
    return headers.get(endpoint.key) if endpoint.key else None
