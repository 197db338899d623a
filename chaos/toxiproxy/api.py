"""The HTTP interface of the embedded server: paths, status codes and errors as of Toxiproxy 2.12.

What follows "bad request body: " is worded by Go's parser there and by ours here.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from chaos.toxiproxy.pipeline import Poison
from chaos.toxiproxy.proxies import STREAMS, Proxy, poison_json
from chaos.toxiproxy.toxics import KINDS, Toxic

VERSION = "2.12.0"
"""Of the interface and of what the toxics do."""

INT64 = 1 << 63

Json = dict[str, Any]


class Answer(NamedTuple):
    """Status and body; None is no content, a text is no JSON."""

    status: int
    body: Any = None


class Refused(Exception):
    """A request that cannot be done."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status, self.error = status, error


class Api:
    """All proxies of one server. *seed* is of what its toxics leave to chance."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._proxies: dict[str, Proxy] = {}

    async def answer(self, method: str, path: str, body: bytes, agent: str) -> Answer:
        """Return what the client *agent* gets for a request; *path* is still quoted."""
        if agent.startswith("Mozilla/"):
            return Answer(403, "User agent not allowed\n")
        words = unquote(path.partition("?")[0]).split("/")[1:]
        route = "/".join([words[0], *("*" if number % 2 else word for number, word in enumerate(words[1:], 1))])
        known = [each for each in ROUTES if each[1] == route and all(words)]
        if not known:
            return Answer(404, "404 page not found\n")
        handler = next((each[2] for each in known if method in each[0]), None)
        if handler is None:
            return Answer(405)
        try:
            found: Answer = await getattr(self, handler)(*words[1::2], *([body] if method in ("POST", "PATCH") else []))
        except Refused as refused:
            return Answer(refused.status, {"error": refused.error, "status": refused.status})
        except OSError as error:
            return Answer(500, {"error": str(error), "status": 500})
        return found

    async def close(self) -> None:
        """Stop all proxies."""
        for proxy in self._proxies.values():
            await proxy.stop()

    async def version(self) -> Answer:
        return Answer(200, {"version": VERSION})

    async def reset(self, body: bytes) -> Answer:
        for proxy in self._proxies.values():
            await proxy.start()
            for poison in list(proxy.poisons):
                await proxy.remove(poison)
        return Answer(204)

    async def index(self) -> Answer:
        return Answer(200, {name: proxy.as_json() for name, proxy in sorted(self._proxies.items())})

    async def create(self, body: bytes) -> Answer:
        given = _object(body)
        proxy = await self._created(given, "", replaces=False)
        return Answer(201, proxy.as_json())

    async def populate(self, body: bytes) -> Answer:
        """Make several proxies; those that are there already and lead elsewhere are replaced."""
        made: list[Json] | None = None
        try:
            given = _decoded(body)
            if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
                raise Refused(400, "bad request body: a list of proxies is needed")
            entries = [_lower(each) for each in given]
            for number, each in enumerate(entries, 1):
                _named(each, f" at proxy {number}")
            made = []
            for each in entries:
                made.append((await self._created(each, "", replaces=True)).as_json())
        except Refused as refused:
            return Answer(refused.status, {"error": refused.error, "status": refused.status, "proxies": made})
        except OSError as error:
            return Answer(500, {"error": str(error), "status": 500, "proxies": made})
        return Answer(201, {"proxies": made or None})

    async def _created(self, given: Json, where: str, *, replaces: bool) -> Proxy:
        name, upstream = _named(given, where)
        listen, enabled = _field(given, "listen", str, ""), _field(given, "enabled", bool, True)
        proxy = Proxy(name, listen or ":0", upstream, self._seed)
        if (old := self._proxies.get(name)) is not None:
            if not replaces:
                raise Refused(409, "proxy already exists")
            if (old.listen, old.upstream) == (listen, upstream):
                return old
            await old.stop()
        if enabled:
            await proxy.start()
        self._proxies[name] = proxy
        return proxy

    async def show(self, name: str) -> Answer:
        return Answer(200, self._proxy(name).as_json())

    async def change(self, name: str, body: bytes) -> Answer:
        """Change where a proxy listens and leads to, and turn it on or off; a move cuts its connections."""
        proxy = self._proxy(name)
        given = _object(body)
        listen = _field(given, "listen", str, proxy.listen)
        upstream = _field(given, "upstream", str, proxy.upstream)
        enabled = _field(given, "enabled", bool, proxy.enabled)
        if (listen, upstream) != (proxy.listen, proxy.upstream):
            await proxy.stop()
            proxy.listen, proxy.upstream = listen, upstream
        await (proxy.start() if enabled else proxy.stop())
        return Answer(200, proxy.as_json())

    async def delete(self, name: str) -> Answer:
        await self._proxy(name).stop()
        del self._proxies[name]
        return Answer(204)

    async def toxics(self, name: str) -> Answer:
        return Answer(200, [poison_json(poison) for poison in self._proxy(name).in_order()])

    async def add_toxic(self, name: str, body: bytes) -> Answer:
        proxy = self._proxy(name)
        given = _object(body)
        kind, stream = _field(given, "type", str, ""), _field(given, "stream", str, "downstream").lower()
        toxicity = float(_field(given, "toxicity", (int, float), 1.0))
        if stream not in STREAMS:
            raise Refused(400, "stream was invalid, can be either upstream or downstream")
        if kind not in KINDS:
            raise Refused(400, "invalid toxic type")
        label = _field(given, "name", str, "") or f"{kind}_{stream}"
        if proxy.find(label):
            raise Refused(409, "toxic already exists")
        poison = Poison(label, kind, stream, toxicity, _toxic(KINDS[kind](), given))
        await proxy.add(poison)
        return Answer(200, poison_json(poison))

    async def show_toxic(self, name: str, toxic: str) -> Answer:
        return Answer(200, poison_json(self._poison(self._proxy(name), toxic)))

    async def change_toxic(self, name: str, toxic: str, body: bytes) -> Answer:
        proxy = self._proxy(name)
        poison = self._poison(proxy, toxic)
        given = _object(body)
        toxicity = float(_field(given, "toxicity", (int, float), poison.toxicity))
        changed = poison._replace(toxic=_toxic(poison.toxic, given), toxicity=toxicity)
        await proxy.update(changed)
        return Answer(200, poison_json(changed))

    async def delete_toxic(self, name: str, toxic: str) -> Answer:
        proxy = self._proxy(name)
        await proxy.remove(self._poison(proxy, toxic))
        return Answer(204)

    def _proxy(self, name: str) -> Proxy:
        if name not in self._proxies:
            raise Refused(404, "proxy not found")
        return self._proxies[name]

    def _poison(self, proxy: Proxy, toxic: str) -> Poison:
        found = proxy.find(toxic)
        if found is None:
            raise Refused(404, "toxic not found")
        return found


CHANGES = ("POST", "PATCH")
ROUTES = (
    (("POST",), "reset", "reset"),
    (("GET",), "version", "version"),
    (("POST",), "populate", "populate"),
    (("GET",), "proxies", "index"),
    (("POST",), "proxies", "create"),
    (("GET",), "proxies/*", "show"),
    (CHANGES, "proxies/*", "change"),
    (("DELETE",), "proxies/*", "delete"),
    (("GET",), "proxies/*/toxics", "toxics"),
    (("POST",), "proxies/*/toxics", "add_toxic"),
    (("GET",), "proxies/*/toxics/*", "show_toxic"),
    (CHANGES, "proxies/*/toxics/*", "change_toxic"),
    (("DELETE",), "proxies/*/toxics/*", "delete_toxic"),
)
"""Methods, path, and the method of `Api` that answers."""


def _decoded(body: bytes) -> Any:
    """Return the first JSON value of *body*: like Go's decoder, ours does not look at what follows it."""
    try:
        return json.JSONDecoder().raw_decode(body.decode().lstrip())[0]
    except ValueError as error:
        raise Refused(400, f"bad request body: {error if body.strip() else 'EOF'}") from None


def _object(body: bytes) -> Json:
    given = _decoded(body)
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise Refused(400, f"bad request body: an object is needed, not {given!r:.40}")
    return _lower(given)


def _lower(given: Mapping[str, Any]) -> Json:
    """Return *given* with small letters in its keys, which Go does not distinguish."""
    return {key.lower(): value for key, value in given.items()}


def _field(given: Json, name: str, kind: type | tuple[type, ...], default: Any) -> Any:
    value = given.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise Refused(400, f"bad request body: {name} cannot be {value!r:.40}")
    return value


def _named(given: Json, where: str) -> tuple[str, str]:
    for name in ("name", "upstream"):
        if not _field(given, name, str, ""):
            raise Refused(400, f"missing required field: {name}{where}")
    return given["name"], given["upstream"]


def _toxic(toxic: Toxic, given: Json) -> Toxic:
    """Return *toxic* with the attributes that are *given* changed; unknown ones mean nothing."""
    attributes = _lower(_field(given, "attributes", dict, {}))
    names = [field.name for field in dataclasses.fields(toxic)]  # type: ignore[arg-type]
    changes = {name: _field(attributes, name, int, 0) for name in names if attributes.get(name) is not None}
    if any(not -INT64 <= value < INT64 for value in changes.values()):
        raise Refused(400, "bad request body: an attribute has more than 64 bits")
    return dataclasses.replace(toxic, **changes)  # type: ignore[type-var]
