"""Drives any Toxiproxy server by `toxiproxy-python`, and makes good what that lacks.

What is wrong with version 0.1.1, and what is done about it here:

* The server's address is an attribute of a class: one server in a process. Each client has a copy of its own of the
  package, which also leaves the package alone that somebody else in this process may be using.
* It waits for ever, takes 5xx for success, and goes through the proxy of the environment: its `requests` is replaced.
* Errors are three bare exceptions with bytes; all of them become a HarnessError that says what was asked of whom.
* No change of a toxic, no single proxy; `Proxy.enabled` is of when the object was made; `version()` is bytes.
* Names go into paths as they are: those that would mean something there are refused.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

from chaos.errors import HarnessError

PACKAGE = "toxiproxy"
TIMEOUT_SECONDS = 30.0  # a server answers in milliseconds; its own limit is 25 s
NOT_IN_NAMES = frozenset("/?#%\\")

_numbers = count(1)


class Client:
    """The API of the server at *address* (HOST:PORT). From several threads, one call at a time."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._lock = threading.Lock()
        self._library = _copy()
        host, _, port = address.rpartition(":")
        self._library.api.requests = _Requests(address)
        self._server = self._library.Toxiproxy()
        self._server.update_api_consumer(host, int(port))

    def version(self) -> str:
        """Return the server's version, as in "2.12.0"."""
        return str(self._asked("its version", lambda: self._api.get("/version").json()["version"]))

    def create(self, name: str, upstream: str, listen: str = "127.0.0.1:0") -> str:
        """Make the proxy *name* that leads to *upstream*; return where it listens."""
        made = self._asked(f"to make the proxy {name!r}", lambda: self._server.create(upstream, _name(name), listen))
        return str(made.listen)

    def names(self) -> list[str]:
        """Return the names of all proxies, anybody's."""
        return sorted(self._asked("its proxies", self._server.proxies))

    def enabled(self, name: str) -> bool:
        """Tell whether the proxy *name* is on, at this moment."""
        return bool(
            self._asked(f"for the proxy {name!r}", lambda: self._api.get(f"/proxies/{_name(name)}").json())["enabled"]
        )

    def enable(self, name: str) -> None:
        """Let the proxy listen again, where it did."""
        self._asked(f"to turn on the proxy {name!r}", self._proxy(name).enable)

    def disable(self, name: str) -> None:
        """Cut the proxy's connections, and let it listen no more."""
        self._asked(f"to turn off the proxy {name!r}", self._proxy(name).disable)

    def delete(self, name: str) -> None:
        """Cut the proxy's connections, and forget it."""
        self._asked(f"to delete the proxy {name!r}", self._proxy(name).destroy)

    def toxics(self, name: str) -> dict[str, tuple[str, str, float, dict[str, int]]]:
        """Return type, stream, toxicity and attributes of each toxic of the proxy *name*."""
        found = self._asked(f"for the toxics of {name!r}", self._proxy(name).toxics)
        return {each: (t.type, t.stream, t.toxicity, t.attributes) for each, t in found.items()}

    def add_toxic(
        self, name: str, toxic: str, kind: str, stream: str, attributes: Mapping[str, int], toxicity: float = 1.0
    ) -> None:
        """Poison the proxy *name*: its open connections in this *stream*, and all to come.

        Args:
            toxic: the name that it gets.
            toxicity: the part of the connections that it is for.
        """
        given = {"name": _name(toxic), "type": kind, "stream": stream, "toxicity": toxicity}
        proxy = self._proxy(name)
        self._asked(f"for a {kind} on {name!r}", lambda: proxy.add_toxic(**given, attributes=dict(attributes)))

    def change_toxic(self, name: str, toxic: str, attributes: Mapping[str, int], toxicity: float = 1.0) -> None:
        """Give the toxic other *attributes*; those not named stay."""
        path, given = (
            f"/proxies/{_name(name)}/toxics/{_name(toxic)}",
            {"attributes": dict(attributes), "toxicity": toxicity},
        )
        self._asked(f"to change {toxic!r} on {name!r}", lambda: self._api.post(path, json=given))

    def remove_toxic(self, name: str, toxic: str) -> None:
        """Take a toxic away; what it held back goes on."""
        proxy = self._proxy(name)
        self._asked(f"to remove {toxic!r} from {name!r}", lambda: proxy.destroy_toxic(_name(toxic)))

    def reset(self) -> None:
        """Turn on every proxy and take away every toxic, anybody's."""
        self._asked("for a reset", self._server.reset)

    def close(self) -> None:
        """Close the connection to the server."""
        self._library.api.requests.close()

    @property
    def _api(self) -> Any:
        return self._library.api.APIConsumer

    def _proxy(self, name: str) -> Any:
        return self._library.Proxy(name=_name(name), upstream="", enabled=True, listen="")

    def _asked(self, what: str, call: Callable[[], Any]) -> Any:
        """Return what *call* does; raise a HarnessError that says *what* it was about."""
        try:
            with self._lock:
                return call()
        except OSError as error:  # all of requests' errors are
            raise HarnessError(f"Toxiproxy at {self.address}, asked {what}: {error}") from error
        except Exception as error:
            if type(error).__name__ not in ("ProxyExists", "NotFound", "InvalidToxic"):
                raise
            said = error.args[0].decode().strip() if error.args and isinstance(error.args[0], bytes) else str(error)
            raise HarnessError(f"Toxiproxy at {self.address}, asked {what}, answers {said}") from error


def _name(name: str) -> str:
    if not name or NOT_IN_NAMES & set(name) or set(name) <= {"."}:
        raise ValueError(
            f"a name of Toxiproxy stands in a path: {name!r} must have no {' '.join(sorted(NOT_IN_NAMES))}"
        )
    return name


class _Requests:
    """What the library uses of `requests`, with a timeout, without the environment's proxies, 5xx raised."""

    def __init__(self, address: str) -> None:
        import requests

        self._session = requests.Session()
        self._session.trust_env = False

    def close(self) -> None:
        self._session.close()

    def get(self, **given: Any) -> Any:
        return self._raised("GET", given)

    def post(self, **given: Any) -> Any:
        return self._raised("POST", given)

    def delete(self, **given: Any) -> Any:
        return self._raised("DELETE", given)

    def _raised(self, method: str, given: Mapping[str, Any]) -> Any:
        answer = self._session.request(method, **given, timeout=TIMEOUT_SECONDS)
        if answer.status_code not in (400, 404, 409):  # of these the library makes its exceptions
            answer.raise_for_status()
        return answer


def _copy() -> Any:
    """Return a copy of the library of its own: loaded under another name, and known to nobody else."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise HarnessError("TCP faults need the package toxiproxy-python: pip install toxiproxy-python")
    name = f"_chaos_{PACKAGE}_{next(_numbers)}"
    spec = importlib.util.spec_from_file_location(
        name, found.origin, submodule_search_locations=list(found.submodule_search_locations or ())
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    with _known(name, package):
        spec.loader.exec_module(package)
    return package


@contextmanager
def _known(name: str, package: Any) -> Iterator[None]:
    """Let the modules of *package* find each other while they are imported."""
    sys.modules[name] = package
    try:
        yield
    finally:
        for each in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
            del sys.modules[each]
