"""Links: what an agent talks to, led through one proxy each; the harness itself always talks directly.

    agent ─► front tap ─► proxy ─► back tap ─► the world's door, or a server

The taps see what a toxic does to a connection, whichever server the proxy belongs to (see `bout`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from chaos.durable import VARIABLE, Lease
from chaos.errors import HarnessError
from chaos.journal import Journal
from chaos.leftovers import PREFIX, surely
from chaos.servers._address import shown
from chaos.toxiproxy.client import Client
from chaos.toxiproxy.link import Link
from chaos.toxiproxy.servers import opened
from chaos.toxiproxy.tap import HOST, Loop

VARIABLES: Mapping[str, tuple[str, ...]] = {
    "model": ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"),
    "services": ("CHAOS_SERVICES_URL",),
}
"""Links into the world, and the variables by which an agent finds what is behind them."""

PORTS = {"postgres": 5432, "redis": 6379, "temporal": 7233}
"""Links to servers, and the ports that these have where an address names none."""

VERIFYING = ("verify-ca", "verify-full")

_numbers = count(1)


class Links:
    """The links of one run, by what they lead to."""

    def __init__(self, links: Mapping[str, Link]) -> None:
        self._links = dict(links)

    def __getitem__(self, name: str) -> Link:
        if name not in self._links:
            raise HarnessError(f"the run has no link {name!r}; it has {', '.join(self._links) or 'none'}")
        return self._links[name]

    def lead(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return an agent's environment *env* in which everything that there is a link for leads through it.

        Another door of the world than the one that a link leads to stays as it is: a second worker has its own.
        """
        led = dict(env)
        for name, link in self._links.items():
            for variable in VARIABLES.get(name, ()):
                if urlsplit(env[variable]).port == link.destination[1]:
                    led[variable] = _through(env[variable], link.front.port)
                    if name == "services":  # an agent may have it in variables of its own, as the base URL of an API
                        own = {other: text.replace(env[variable], led[variable]) for other, text in env.items()}
                        led |= {other: text for other, text in own.items() if text != env[other]}
        if VARIABLE in env:
            leases = {name: Lease(*lease) for name, lease in json.loads(env[VARIABLE]).items()}
            for name in leases.keys() & self._links.keys():
                leases[name] = leases[name]._replace(url=_through(leases[name].url, self[name].front.port))
            led[VARIABLE] = json.dumps({name: list(lease) for name, lease in sorted(leases.items())})
        return led


@contextmanager
def linked(
    wanted: frozenset[str],
    toxiproxy: str,
    world_port: int,
    leases: Mapping[str, Lease],
    journal: Journal,
    folder: Path,
    seed: int,
) -> Iterator[Links]:
    """Have those of the *wanted* links that the run has something behind, until the context ends.

    Args:
        toxiproxy: which server (see `servers.opened`).
        folder: of the run.
        seed: of what an embedded server leaves to chance.
    """
    places = {name: (HOST, world_port) for name in VARIABLES if name in wanted}
    places.update({name: _place(name, lease.url) for name, lease in leases.items() if name in wanted})
    with ExitStack() as stack:
        driven = stack.enter_context(opened(toxiproxy, folder, seed))
        if toxiproxy:
            _sweep(driven.client)
        loop = Loop()
        stack.callback(surely, loop.close)
        links = {}
        for name, place in places.items():
            proxy = f"{PREFIX}{os.getpid()}-{next(_numbers)}-{name}"
            links[name] = Link(name, proxy, driven, loop, place, journal)
            stack.callback(surely, partial(links[name].close))
        yield Links(links)


def _sweep(client: Client) -> None:
    """Delete the proxies that harnesses left on somebody's server: killed, they could not do it themselves."""
    for name in client.names():
        pid = name.removeprefix(PREFIX).partition("-")[0]
        if name.startswith(PREFIX) and pid.isdigit() and not Path(f"/proc/{pid}").exists():
            client.delete(name)


def _place(name: str, url: str) -> tuple[str, int]:
    """Return host and port of the server *name* at *url*; raise HarnessError where no proxy can stand before it."""
    parts = urlsplit(url if "://" in url else f"//{url}")
    if not parts.hostname:
        raise HarnessError(f"{shown(url)} names no TCP host: a link to {name} needs HOST:PORT")
    if parts.scheme == "rediss" or parse_qs(parts.query).get("sslmode", [""])[0] in VERIFYING:
        raise HarnessError(
            f"{shown(url)} verifies the server's name, which is another one behind a link: give an address without"
        )
    return parts.hostname, parts.port or PORTS[name]


def _through(url: str, port: int) -> str:
    """Return *url* with another address: *port* of this machine."""
    if "://" not in url:
        return f"{HOST}:{port}"
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user}{at}{HOST}:{port}").geturl()
