"""One suite against both servers: what the embedded one does is what the real one does.

Times are lower bounds that a toxic guarantees; nothing here fails because a machine is slow.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from chaos.toxiproxy.servers import Driven
from tests.toxiproxy.conftest import Upstream, ask, connect, ending, read, swallow, wait

Make = Callable[..., Upstream]
DOWN = {"upstream": "127.0.0.1:9", "listen": "127.0.0.1:0"}
TOXICS = [
    ("latency", {"latency": 50, "jitter": 10}),
    ("bandwidth", {"rate": 100}),
    ("reset_peer", {"timeout": 5}),
    ("timeout", {"timeout": 100}),
    ("slow_close", {"delay": 100}),
    ("limit_data", {"bytes": 10}),
    ("slicer", {"average_size": 64, "size_variation": 32, "delay": 10}),
    ("noop", {}),
]


def poison(driven: Driven, kind: str, stream: str = "downstream", toxicity: float = 1.0, **attributes: int) -> None:
    driven.client.add_toxic("p", kind, kind, stream, attributes, toxicity)


# The interface


def test_the_life_of_a_proxy(driven: Driven) -> None:
    status, made = ask(driven, "POST", "/proxies", {"name": "p", **DOWN})
    assert status == 201 and made["listen"].startswith("127.0.0.1:") and not made["listen"].endswith(":0")
    wanted = {"name": "p", "upstream": "127.0.0.1:9", "enabled": True, "toxics": [], "listen": made["listen"]}
    assert {key: made[key] for key in wanted} == wanted
    assert ask(driven, "GET", "/proxies/p") == (200, made)
    assert ask(driven, "GET", "/proxies") == (200, {"p": made})
    status, off = ask(driven, "POST", "/proxies/p", {"enabled": False})
    assert status == 200 and off == {**made, "enabled": False}
    assert ask(driven, "PATCH", "/proxies/p", {"enabled": True}) == (200, made)
    assert ask(driven, "DELETE", "/proxies/p") == (204, "")
    assert ask(driven, "GET", "/proxies") == (200, {})


def test_a_proxy_that_is_made_off_takes_nobody(driven: Driven, upstream: Make) -> None:
    _, made = ask(driven, "POST", "/proxies", {"name": "p", "listen": "127.0.0.1:0", "upstream": upstream().address,
                                               "enabled": False})  # fmt: skip
    assert made["enabled"] is False and made["listen"] == "127.0.0.1:0"  # no port yet
    _, on = ask(driven, "POST", "/proxies/p", {"enabled": True})
    with connect(on["listen"]) as client:
        client.sendall(b"hello")
        assert read(client, 5) == b"hello"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "error"),
    [
        ("GET", "/proxies/q", None, 404, "proxy not found"),
        ("POST", "/proxies/q", {"enabled": False}, 404, "proxy not found"),
        ("DELETE", "/proxies/q", None, 404, "proxy not found"),
        ("GET", "/proxies/q/toxics", None, 404, "proxy not found"),
        ("POST", "/proxies/q/toxics", {"type": "latency"}, 404, "proxy not found"),
        ("GET", "/proxies/p/toxics/t", None, 404, "toxic not found"),
        ("POST", "/proxies/p/toxics/t", {}, 404, "toxic not found"),
        ("DELETE", "/proxies/p/toxics/t", None, 404, "toxic not found"),
        ("POST", "/proxies", {"name": "p", "upstream": "127.0.0.1:9"}, 409, "proxy already exists"),
        ("POST", "/proxies", {"upstream": "127.0.0.1:9"}, 400, "missing required field: name"),
        ("POST", "/proxies", {"name": "q"}, 400, "missing required field: upstream"),
        ("POST", "/proxies", None, 400, "bad request body: EOF"),
        ("POST", "/proxies", "{", 400, "bad request body: "),
        ("POST", "/proxies", [], 400, "bad request body: "),
        ("POST", "/proxies", {"name": 3, "upstream": "x:1"}, 400, "bad request body: "),
        ("POST", "/proxies/p", {"enabled": "no"}, 400, "bad request body: "),
        ("POST", "/proxies/p/toxics", {"type": "lateness"}, 400, "invalid toxic type"),
        ("POST", "/proxies/p/toxics", {}, 400, "invalid toxic type"),
        ("POST", "/proxies/p/toxics", {"type": "latency", "stream": "sideways"}, 400, "stream was invalid"),
        ("POST", "/proxies/p/toxics", {"type": "latency", "attributes": {"latency": "x"}}, 400, "bad request body: "),
        ("POST", "/proxies/p/toxics", {"type": "latency", "attributes": {"latency": 0.5}}, 400, "bad request body: "),
        ("POST", "/proxies/p/toxics", {"type": "latency", "toxicity": "x"}, 400, "bad request body: "),
        ("POST", "/populate", {"name": "q"}, 400, "bad request body: "),
        ("POST", "/populate", [{"name": "q"}], 400, "missing required field: upstream at proxy 1"),
    ],
)  # fmt: skip
def test_what_is_refused(driven: Driven, method: str, path: str, body: object, status: int, error: str) -> None:
    driven.client.create("p", "127.0.0.1:9")
    got, said = ask(driven, method, path, body)
    assert (got, said["status"]) == (status, status)
    assert said["error"].startswith(error)
    assert driven.client.names() == ["p"] and driven.client.toxics("p") == {}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404), ("GET", "/proxies/p/toxics/t/x", 404), ("DELETE", "/proxies", 405),
        ("GET", "/reset", 405), ("PUT", "/proxies/p", 405),
    ],
)  # fmt: skip
def test_what_is_no_path_of_it(driven: Driven, method: str, path: str, status: int) -> None:
    assert ask(driven, method, path)[0] == status


def test_a_browser_is_turned_away(driven: Driven) -> None:
    assert ask(driven, "GET", "/proxies", **{"User-Agent": "Mozilla/5.0"})[0] == 403


def test_a_taken_port_is_said_and_leaves_no_proxy(driven: Driven, upstream: Make) -> None:
    taken = upstream().address
    status, said = ask(driven, "POST", "/proxies", {"name": "p", "listen": taken, "upstream": "127.0.0.1:9"})
    assert status == 500 and "address already in use" in said["error"]
    assert driven.client.names() == []


@pytest.mark.parametrize(("kind", "attributes"), TOXICS)
@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_a_toxic_is_shown_as_it_was_given(driven: Driven, kind: str, attributes: dict[str, int], stream: str) -> None:
    driven.client.create("p", "127.0.0.1:9")
    given = {"type": kind, "stream": stream, "toxicity": 0.5, "attributes": attributes}
    wanted = {**given, "name": f"{kind}_{stream}"}
    assert ask(driven, "POST", "/proxies/p/toxics", given) == (200, wanted)
    assert ask(driven, "GET", f"/proxies/p/toxics/{kind}_{stream}") == (200, wanted)
    assert ask(driven, "GET", "/proxies/p/toxics") == (200, [wanted])
    assert ask(driven, "GET", "/proxies/p")[1]["toxics"] == [wanted]
    assert ask(driven, "POST", "/proxies/p/toxics", given)[0] == 409
    assert ask(driven, "DELETE", f"/proxies/p/toxics/{kind}_{stream}") == (204, "")
    assert ask(driven, "GET", "/proxies/p/toxics") == (200, [])


def test_a_toxic_without_attributes_and_with_unknown_ones(driven: Driven) -> None:
    driven.client.create("p", "127.0.0.1:9")
    _, made = ask(driven, "POST", "/proxies/p/toxics", {"type": "latency", "attributes": {"LATENCY": 3, "rate": 5}})
    assert made["attributes"] == {"latency": 3, "jitter": 0}
    _, changed = ask(driven, "POST", "/proxies/p/toxics/latency_downstream", {"attributes": {"jitter": 2}})
    assert changed["attributes"] == {"latency": 3, "jitter": 2}
    _, changed = ask(driven, "PATCH", "/proxies/p/toxics/latency_downstream", {"toxicity": 0.25})
    assert (changed["toxicity"], changed["attributes"]) == (0.25, {"latency": 3, "jitter": 2})


def test_toxics_of_the_upstream_are_listed_first(driven: Driven) -> None:
    driven.client.create("p", "127.0.0.1:9")
    for name, stream in (("a", "downstream"), ("b", "upstream"), ("c", "downstream")):
        driven.client.add_toxic("p", name, "latency", stream, {})
    assert list(driven.client.toxics("p")) == ["b", "a", "c"]


def test_a_reset_turns_everything_on_and_clears_it(driven: Driven) -> None:
    for name in ("p", "q"):
        driven.client.create(name, "127.0.0.1:9")
        driven.client.add_toxic(name, "t", "latency", "upstream", {"latency": 1000})
    driven.client.disable("q")
    driven.client.reset()
    assert [driven.client.toxics(name) for name in ("p", "q")] == [{}, {}]
    assert driven.client.enabled("p") and driven.client.enabled("q")


def test_populate_makes_and_replaces(driven: Driven) -> None:
    entries = [{"name": "p", **DOWN}, {"name": "q", **DOWN, "enabled": False}]
    status, said = ask(driven, "POST", "/populate", entries)
    assert status == 201 and [(each["name"], each["enabled"]) for each in said["proxies"]] == [
        ("p", True),
        ("q", False),
    ]
    _, again = ask(driven, "POST", "/populate", [{**entries[0], "upstream": "127.0.0.1:10"}])
    assert [each["upstream"] for each in again["proxies"]] == ["127.0.0.1:10"]
    assert driven.client.names() == ["p", "q"]


@pytest.mark.parametrize("name", ["modèle", "模型", "with space", "a+b&c=d", "😀"])
def test_names_in_any_script(driven: Driven, upstream: Make, name: str) -> None:
    client = driven.client
    listen = client.create(name, upstream().address)
    client.add_toxic(name, name, "latency", "downstream", {"latency": 1})
    assert client.names() == [name] and list(client.toxics(name)) == [name]
    with connect(listen) as sock:
        sock.sendall(b"x")
        assert read(sock, 1) == b"x"
    client.remove_toxic(name, name)
    client.disable(name)
    assert not client.enabled(name)
    client.delete(name)
    assert client.names() == []


# Connections


def test_bytes_go_through_unchanged_and_in_order(driven: Driven, upstream: Make) -> None:
    listen = driven.client.create("p", upstream().address)
    sent = os.urandom(8 << 20)
    with connect(listen) as sock:
        threading.Thread(target=sock.sendall, args=(sent,), daemon=True).start()
        assert read(sock, len(sent)) == sent


def test_a_half_closed_connection_is_closed(driven: Driven, upstream: Make) -> None:
    """Both servers close the other side altogether: what it still had to say is lost."""

    def answer_at_the_end(connection: socket.socket) -> bytes:
        got = swallow(connection)
        time.sleep(0.1)
        try:
            for _ in range(100):
                connection.sendall(b"too late")
                time.sleep(0.01)
        except OSError:
            return got + b"!"
        return got

    server = upstream(answer_at_the_end)
    with connect(driven.client.create("p", server.address)) as sock:
        sock.sendall(b"question")
        sock.shutdown(socket.SHUT_WR)
        assert ending(sock) == "closed"
        assert server.result() == b"question!"


def test_what_the_upstream_said_before_it_closed_arrives(driven: Driven, upstream: Make) -> None:
    def speak(connection: socket.socket) -> None:
        connection.sendall(b"x" * 300_000)
        connection.close()

    with connect(driven.client.create("p", upstream(speak).address)) as sock:
        assert swallow(sock) == b"x" * 300_000


def test_nobody_at_the_upstream(driven: Driven, upstream: Make) -> None:
    """The client gets a connection, and its end."""
    server = upstream()
    server.close()
    with connect(driven.client.create("p", server.address)) as sock:
        assert ending(sock) in ("closed", "reset")


def test_off_cuts_what_is_open_and_refuses_what_is_new(driven: Driven, upstream: Make) -> None:
    server = upstream()
    listen = driven.client.create("p", server.address)
    with connect(listen) as sock:
        sock.sendall(b"ping")
        assert read(sock, 4) == b"ping"
        driven.client.disable("p")
        assert ending(sock) in ("closed", "reset")
        assert server.result() in (4, "ConnectionResetError")
    with pytest.raises(ConnectionRefusedError):
        connect(listen)
    driven.client.enable("p")
    with connect(listen) as sock:
        sock.sendall(b"again")
        assert read(sock, 5) == b"again"


def test_a_deleted_proxy_cuts_and_frees_its_port(driven: Driven, upstream: Make) -> None:
    listen = driven.client.create("p", upstream().address)
    with connect(listen) as sock:
        sock.sendall(b"ping")
        assert read(sock, 4) == b"ping"
        driven.client.delete("p")
        assert ending(sock) in ("closed", "reset")
    with pytest.raises(ConnectionRefusedError):
        connect(listen)
    assert driven.client.create("p", upstream().address, listen) == listen


def test_another_upstream_cuts_what_led_to_the_first(driven: Driven, upstream: Make) -> None:
    def name(connection: socket.socket, said: bytes) -> None:
        connection.sendall(said)
        swallow(connection)

    first, second = upstream(lambda sock: name(sock, b"1")), upstream(lambda sock: name(sock, b"2"))
    listen = driven.client.create("p", first.address)
    with connect(listen) as sock:
        assert read(sock, 1) == b"1"
        assert ask(driven, "POST", "/proxies/p", {"upstream": second.address})[1]["upstream"] == second.address
        assert ending(sock) in ("closed", "reset")
    with connect(listen) as sock:
        assert read(sock, 1) == b"2"


def test_two_proxies_at_once(driven: Driven, upstream: Make) -> None:
    client = driven.client
    slow, quick = client.create("p", upstream().address), client.create("q", upstream().address)
    client.add_toxic("p", "t", "timeout", "downstream", {"timeout": 0})
    with connect(slow) as one, connect(quick) as two:
        one.sendall(b"lost")
        two.sendall(b"found")
        assert read(two, 5) == b"found"
        client.disable("q")
        assert ending(two) in ("closed", "reset")
        one.settimeout(0.05)
        with pytest.raises(TimeoutError):
            one.recv(1)


# Toxics


@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_latency(driven: Driven, upstream: Make, stream: str) -> None:
    listen = driven.client.create("p", upstream().address)
    with connect(listen) as before:
        before.sendall(b"?")
        assert read(before, 1) == b"?"
        poison(driven, "latency", stream, latency=120)
        for sock in (before, connect(listen)):
            began = time.monotonic()
            sock.sendall(b"hello")
            assert read(sock, 5) == b"hello"
            assert time.monotonic() - began >= 0.119
            sock.close()


def test_latency_of_many_chunks_is_not_added_up(driven: Driven, upstream: Make) -> None:
    """Chunks wait side by side: 30 of them, 100 ms each, are there long before 3 s have passed."""
    with connect(driven.client.create("p", upstream().address)) as sock:
        poison(driven, "latency", latency=100, jitter=20)
        began = time.monotonic()
        for number in range(30):
            sock.sendall(bytes([number]))
            time.sleep(0.001)
        assert read(sock, 30) == bytes(range(30))
        assert 0.079 <= time.monotonic() - began < 1.5


def test_what_latency_holds_back_is_released_with_it(driven: Driven, upstream: Make) -> None:
    with connect(driven.client.create("p", upstream().address)) as sock:
        poison(driven, "latency", latency=60_000)
        for part in (b"one", b"two", b"six"):
            sock.sendall(part)
            time.sleep(0.02)
        sock.settimeout(0.05)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        sock.settimeout(10)
        driven.client.remove_toxic("p", "latency")
        assert read(sock, 9) == b"onetwosix"
        sock.sendall(b"more")
        assert read(sock, 4) == b"more"


def test_a_changed_toxic_is_in_force_at_once(driven: Driven, upstream: Make) -> None:
    with connect(driven.client.create("p", upstream().address)) as sock:
        poison(driven, "latency", latency=60_000)
        sock.sendall(b"one")
        time.sleep(0.05)
        driven.client.change_toxic("p", "latency", {"latency": 1})
        assert read(sock, 3) == b"one"


@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_bandwidth(driven: Driven, upstream: Make, stream: str) -> None:
    """30 KB at 100 KB/s take 0.3 s; the first tenth of a second is given away."""
    with connect(driven.client.create("p", upstream().address)) as sock:
        poison(driven, "bandwidth", stream, rate=100)
        began = time.monotonic()
        sent = os.urandom(30_000)
        sock.sendall(sent)
        assert read(sock, len(sent)) == sent
        assert time.monotonic() - began >= 0.19


def test_no_bandwidth_lets_nothing_pass_and_loses_nothing(driven: Driven, upstream: Make) -> None:
    with connect(driven.client.create("p", upstream().address)) as sock:
        poison(driven, "bandwidth", rate=0)
        sock.sendall(b"hello")
        sock.settimeout(0.25)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        sock.settimeout(10)
        driven.client.remove_toxic("p", "bandwidth")
        assert read(sock, 5) == b"hello"


@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_reset_peer(driven: Driven, upstream: Make, stream: str) -> None:
    """A connection that begins with the toxic on it ends by a reset, at both ends, and nothing comes through."""
    server = upstream(swallow)
    listen = driven.client.create("p", server.address)
    poison(driven, "reset_peer", stream, timeout=30)
    with connect(listen) as sock:
        began = time.monotonic()
        if stream == "downstream":
            wait(lambda: server.connections)
            server.connections[0].sendall(b"answer")
        else:
            sock.sendall(b"question")
        assert ending(sock) == "reset"
        assert time.monotonic() - began >= 0.029
        assert server.result() == "ConnectionResetError"


def test_a_reset_peer_without_bytes_does_nothing(driven: Driven, upstream: Make) -> None:
    listen = driven.client.create("p", upstream().address)
    poison(driven, "reset_peer")
    with connect(listen) as sock:
        sock.settimeout(0.1)
        with pytest.raises(TimeoutError):
            sock.recv(1)


def test_reset_peer_ends_a_connection_that_was_open(driven: Driven, upstream: Make) -> None:
    with connect(driven.client.create("p", upstream().address)) as sock:
        sock.sendall(b"ping")
        assert read(sock, 4) == b"ping"
        poison(driven, "reset_peer")
        sock.sendall(b"ping")
        assert ending(sock) in ("closed", "reset")


def test_timeout_drops_and_closes(driven: Driven, upstream: Make) -> None:
    server = upstream(swallow)
    listen = driven.client.create("p", server.address)
    poison(driven, "timeout", "upstream", timeout=100)
    with connect(listen) as sock:
        began = time.monotonic()
        sock.sendall(b"lost")
        assert ending(sock) in ("closed", "reset")
        assert time.monotonic() - began >= 0.099
        assert server.result() in (b"", "ConnectionResetError")


def test_timeout_0_never_closes_and_its_end_does(driven: Driven, upstream: Make) -> None:
    with connect(driven.client.create("p", upstream().address)) as sock:
        poison(driven, "timeout", timeout=0)
        sock.sendall(b"lost")
        sock.settimeout(0.1)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        sock.settimeout(10)
        driven.client.remove_toxic("p", "timeout")
        assert ending(sock) in ("closed", "reset")


def test_slow_close(driven: Driven, upstream: Make) -> None:
    def speak(connection: socket.socket) -> None:
        connection.sendall(b"bye")
        connection.close()

    listen = driven.client.create("p", upstream(speak).address)
    poison(driven, "slow_close", delay=200)
    with connect(listen) as sock:
        assert read(sock, 3) == b"bye"
        began = time.monotonic()
        assert ending(sock) == "closed"
        assert time.monotonic() - began >= 0.1  # the close and the bytes may have come together before we looked


@pytest.mark.parametrize("limit", [0, 1, 10, 100_000])
def test_limit_data(driven: Driven, upstream: Make, limit: int) -> None:
    def speak(connection: socket.socket) -> None:
        connection.sendall(b"x" * 250_000)
        swallow(connection)

    listen = driven.client.create("p", upstream(speak).address)
    poison(driven, "limit_data", bytes=limit)
    for _ in range(2):  # each connection has its own limit
        with connect(listen) as sock:
            assert len(swallow(sock)) == limit


def test_limit_data_upstream(driven: Driven, upstream: Make) -> None:
    server = upstream(swallow)
    listen = driven.client.create("p", server.address)
    poison(driven, "limit_data", "upstream", bytes=7)
    with connect(listen) as sock:
        sock.sendall(b"hello world")
        assert ending(sock) in ("closed", "reset")
    assert server.result() == b"hello w"


def test_slicer(driven: Driven, upstream: Make) -> None:
    """A thousand bytes come as they were, in many pieces, at least 1 ms apart."""
    with connect(driven.client.create("p", upstream().address)) as sock:
        poison(driven, "slicer", average_size=50, size_variation=20, delay=1000)
        sent = os.urandom(1000)
        sock.sendall(sent)
        began, got, pieces = time.monotonic(), b"", 0
        while len(got) < len(sent):
            got += sock.recv(4096)
            pieces += 1
        assert got == sent
        assert pieces > 1 and time.monotonic() - began >= 0.01


def test_a_toxicity_of_0_spares_everybody(driven: Driven, upstream: Make) -> None:
    listen = driven.client.create("p", upstream().address)
    poison(driven, "latency", toxicity=0.0, latency=60_000)
    with connect(listen) as sock:
        sock.sendall(b"hello")
        assert read(sock, 5) == b"hello"


def test_a_toxicity_of_a_half_spares_some(driven: Driven, upstream: Make) -> None:
    listen = driven.client.create("p", upstream().address)
    poison(driven, "timeout", toxicity=0.5, timeout=1)
    answered = 0
    for _ in range(40):
        with connect(listen) as sock:
            sock.sendall(b"x")
            with contextlib.suppress(ConnectionResetError):
                answered += len(read(sock, 1))
    assert 0 < answered < 40


def test_toxics_work_one_after_the_other(driven: Driven, upstream: Make) -> None:
    listen = driven.client.create("p", upstream().address)
    poison(driven, "latency", latency=60)
    poison(driven, "limit_data", bytes=4)
    driven.client.add_toxic("p", "more", "latency", "upstream", {"latency": 60})
    with connect(listen) as sock:
        began = time.monotonic()
        sock.sendall(b"hello world")
        assert swallow(sock) == b"hell"
        assert time.monotonic() - began >= 0.119


def test_toxics_come_and_go_under_a_running_transfer(driven: Driven, upstream: Make) -> None:
    """Nothing is lost, doubled or moved while toxics are put on and taken off."""
    sent = os.urandom(400_000)
    with connect(driven.client.create("p", upstream().address)) as sock:
        threading.Thread(target=sock.sendall, args=(sent,), daemon=True).start()
        got = b""
        for number in range(8):
            driven.client.add_toxic("p", f"slow{number}", "bandwidth", "downstream", {"rate": 500})
            driven.client.add_toxic("p", f"late{number}", "latency", "upstream", {"latency": 3})
            got += read(sock, 20_000)
            driven.client.remove_toxic("p", f"slow{number}")
            got += read(sock, 20_000)
            driven.client.remove_toxic("p", f"late{number}")
        got += read(sock, len(sent) - len(got))
        assert got == sent


def test_a_client_that_resets_is_reported_to_the_upstream(driven: Driven, upstream: Make) -> None:
    server: Any = upstream(swallow)
    sock = connect(driven.client.create("p", server.address))
    sock.sendall(b"half a que")
    wait(lambda: server.connections)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    assert server.result() in (b"half a que", b"", "ConnectionResetError")
