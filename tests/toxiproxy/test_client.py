"""The driver: what `toxiproxy-python` lacks, made good, on either server."""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from chaos.errors import HarnessError
from chaos.toxiproxy import client as module
from chaos.toxiproxy.client import Client
from chaos.toxiproxy.embedded import Embedded
from chaos.toxiproxy.servers import Driven


@pytest.fixture
def other() -> object:
    """A second server."""
    server = Embedded(1)
    yield server
    server.close()


def test_two_servers_in_one_process(driven: Driven, other: Embedded) -> None:
    second = Client(other.address)
    driven.client.create("p", "127.0.0.1:9")
    assert (driven.client.names(), second.names()) == (["p"], [])
    second.create("q", "127.0.0.1:9")
    assert (driven.client.names(), second.names()) == (["p"], ["q"])
    second.close()


def test_somebody_else_s_use_of_the_library_is_left_alone(driven: Driven) -> None:
    import toxiproxy
    from toxiproxy.api import APIConsumer

    assert (APIConsumer.host, APIConsumer.port) == ("127.0.0.1", 8474)
    assert toxiproxy.api.requests.__name__ == "requests"
    assert not [name for name in sys.modules if name.startswith("_chaos_toxiproxy")]


def test_the_state_is_that_of_the_moment(driven: Driven) -> None:
    client = driven.client
    client.create("p", "127.0.0.1:9")
    client.disable("p")
    assert not client.enabled("p")
    client.reset()
    assert client.enabled("p")


def test_a_toxic_is_changed(driven: Driven) -> None:
    driven.client.create("p", "127.0.0.1:9")
    driven.client.add_toxic("p", "t", "latency", "upstream", {"latency": 5}, 0.5)
    driven.client.change_toxic("p", "t", {"jitter": 2})
    assert driven.client.toxics("p") == {"t": ("latency", "upstream", 1.0, {"latency": 5, "jitter": 2})}


def test_what_is_refused_says_what_was_asked(driven: Driven) -> None:
    client = driven.client
    with pytest.raises(HarnessError, match=rf"{client.address}, asked to turn off the proxy 'p', .*proxy not found"):
        client.disable("p")
    client.create("p", "127.0.0.1:9")
    with pytest.raises(HarnessError, match="already exists"):
        client.create("p", "127.0.0.1:9")
    with pytest.raises(HarnessError, match="invalid toxic type"):
        client.add_toxic("p", "t", "lateness", "upstream", {})
    with pytest.raises(HarnessError, match="500 Server Error"):  # the library takes it for a proxy
        client.create("q", "127.0.0.1:9", "256.0.0.1:0")


@pytest.mark.parametrize("name", ["", "a/b", "a?b", "a#b", "50%", "..", "."])
def test_names_that_mean_something_in_a_path(driven: Driven, name: str) -> None:
    with pytest.raises(ValueError, match="stands in a path"):
        driven.client.create(name, "127.0.0.1:9")


def test_the_environment_s_proxy_is_not_asked(driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    client = Client(driven.client.address)
    assert client.version() == "2.12.0"
    client.close()


def test_a_server_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    hung = threading.Event()

    class Hangs(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hung.wait(20)

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hangs)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.2)
    client = Client(f"127.0.0.1:{server.server_port}")
    with pytest.raises(HarnessError, match=r"asked its version: .*timed out"):
        client.version()
    hung.set()
    client.close()
    server.shutdown()
    server.server_close()
    with pytest.raises(HarnessError, match="refused"):
        Client(f"127.0.0.1:{server.server_port}").version()
