"""A tap passes everything on as it came: bytes, half-closes, resets, refusals; and tells who did what."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from chaos.toxiproxy.tap import Loop, Tap
from tests.toxiproxy.conftest import SECONDS, Upstream, echo, ending, reaches, read, swallow, wait

Make = Callable[..., Upstream]


class Seen:
    """What one connection's watcher was told."""

    def __init__(self) -> None:
        self.bytes = {"upstream": 0, "downstream": 0}
        self.ends: list[tuple[str, str]] = []

    def passed(self, stream: str, size: int) -> None:
        self.bytes[stream] += size

    def ended(self, side: str, how: str) -> None:
        self.ends.append((side, how))


class Tapped:
    """A tap before *destination*."""

    def __init__(self, loop: Loop, destination: str) -> None:
        self.seen: list[Seen] = []
        host, _, port = destination.rpartition(":")
        self.loop, self.tap = loop, Tap((host, int(port)), self._watch)
        loop.call(self.tap.open())

    def _watch(self) -> Seen:
        self.seen.append(Seen())
        return self.seen[-1]

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.tap.port), timeout=SECONDS)


@pytest.fixture
def tapped() -> Iterator[Callable[[str], Tapped]]:
    loop, made = Loop(), list[Tapped]()

    def make(destination: str) -> Tapped:
        made.append(Tapped(loop, destination))
        return made[-1]

    yield make
    for each in made:
        loop.call(each.tap.close())
    loop.close()
    loop.close()


def test_bytes_in_both_directions(tapped: Callable[[str], Tapped], upstream: Make) -> None:
    made = tapped(upstream(echo).address)
    sent = os.urandom(3 << 20)
    with made.connect() as sock:
        threading.Thread(target=sock.sendall, args=(sent,), daemon=True).start()
        assert read(sock, len(sent)) == sent
    assert made.seen[0].bytes == {"upstream": len(sent), "downstream": len(sent)}
    wait(lambda: ("server", "closed") in made.seen[0].ends)
    assert made.seen[0].ends == [("client", "closed"), ("server", "closed")]


def test_a_half_closed_connection_stays_open_the_other_way(tapped: Callable[[str], Tapped], upstream: Make) -> None:
    def answer(connection: socket.socket) -> bytes:
        got = swallow(connection)
        connection.sendall(b"answer to " + got)
        connection.close()
        return got

    with tapped(upstream(answer).address).connect() as sock:
        sock.sendall(b"question")
        sock.shutdown(socket.SHUT_WR)
        assert swallow(sock) == b"answer to question"


def test_a_reset_by_the_client_arrives_as_one(tapped: Callable[[str], Tapped], upstream: Make) -> None:
    server = upstream(swallow)
    made = tapped(server.address)
    sock = made.connect()
    sock.sendall(b"half a que")
    wait(lambda: server.connections and made.seen[0].bytes["upstream"])
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    assert server.result() == "ConnectionResetError"
    assert made.seen[0].ends == [("client", "reset")]


def test_a_reset_by_the_server_arrives_as_one(tapped: Callable[[str], Tapped], upstream: Make) -> None:
    def reset(connection: socket.socket) -> None:
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    made = tapped(upstream(reset).address)
    with made.connect() as sock:
        sock.sendall(b"x")
        assert ending(sock) == "reset"
    assert made.seen[0].ends[0] == ("server", "reset")


def test_nobody_there_is_a_reset_and_told(tapped: Callable[[str], Tapped], upstream: Make) -> None:
    server = upstream()
    server.close()
    made = tapped(server.address)
    assert reaches(made.connect) == "reset"
    assert made.seen[0].ends == [("server", "refused")]


def test_shut_refuses_and_keeps_what_is_open(tapped: Callable[[str], Tapped], upstream: Make) -> None:
    made = tapped(upstream(echo).address)
    port = made.tap.port
    with made.connect() as sock:
        sock.sendall(b"a")
        assert read(sock, 1) == b"a"
        made.loop.call(made.tap.shut())
        with pytest.raises(ConnectionRefusedError):
            made.connect()
        sock.sendall(b"b")
        assert read(sock, 1) == b"b"
        made.loop.call(made.tap.open())
        assert made.tap.port == port
        made.connect().close()
        made.loop.call(made.tap.close())
        assert ending(sock) == "reset"
