"""Both Toxiproxy servers, and plain sockets at both ends of a proxy."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chaos.toxiproxy.servers import PROGRAM, Driven, opened

SECONDS = 20.0
ADDRESS = "CHAOS_TEST_TOXIPROXY"
"""Environment variable: where a real server's API is, HOST:PORT; by default the program on the PATH is started."""


def real() -> str:
    """Return what there is of the real server, "" if nothing."""
    return os.environ.get(ADDRESS, "") or (PROGRAM if shutil.which(PROGRAM) else "")


@pytest.fixture(scope="module", params=["embedded", "real"])
def driven(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    """A running server with its client."""
    wanted = "" if request.param == "embedded" else real()
    if request.param == "real" and not wanted:
        pytest.skip(f"no {PROGRAM} on the PATH (.ci/toxiproxy builds it), and {ADDRESS} names none")
    with opened(wanted, tmp_path_factory.mktemp("toxiproxy"), 7) as server:
        yield server


@pytest.fixture(autouse=True)
def clean(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave no proxy behind."""
    yield
    if "driven" in request.fixturenames:
        client = request.getfixturevalue("driven").client
        for name in client.names():
            client.delete(name)


def ask(driven: Driven, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
    """Return status and decoded body of a plain HTTP request; a text body is sent as it is."""
    host, _, port = driven.client.address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=SECONDS)
    sent = body if isinstance(body, str) or body is None else json.dumps(body)
    connection.request(method, path, sent.encode() if sent is not None else None, headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    try:
        return answer.status, json.loads(text)
    except ValueError:
        return answer.status, text


class Upstream:
    """A server that runs *serve* in a thread for each connection, and keeps what it got."""

    def __init__(self, serve: Callable[[socket.socket], object]) -> None:
        self.connections: list[socket.socket] = []
        self.results: list[object] = []
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.errors: list[str] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.settimeout(SECONDS)
                self.connections.append(connection)
                threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection: socket.socket) -> None:
        try:
            self.results.append(self._serve(connection))
        except OSError as error:
            self.results.append(type(error).__name__)

    def result(self, number: int = 0) -> Any:
        """Return what came of a connection, once it is there."""
        wait(lambda: len(self.results) > number)
        return self.results[number]

    def close(self) -> None:
        if self._listener.fileno() >= 0:
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self.connections:
            connection.close()


def wait(done: Callable[[], object]) -> None:
    """Return when *done* is true, or fail."""
    end = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


def echo(connection: socket.socket) -> int:
    """Send back whatever comes; return how much it was."""
    size = 0
    while data := connection.recv(1 << 16):
        connection.sendall(data)
        size += len(data)
    connection.close()
    return size


def swallow(connection: socket.socket) -> bytes:
    """Return all that comes."""
    got = b""
    while data := connection.recv(1 << 16):
        got += data
    return got


@pytest.fixture
def upstream() -> Iterator[Callable[[Callable[[socket.socket], object]], Upstream]]:
    """Make servers for the other end of a proxy."""
    made: list[Upstream] = []

    def make(serve: Callable[[socket.socket], object] = echo) -> Upstream:
        made.append(Upstream(serve))
        return made[-1]

    yield make
    for each in made:
        each.close()


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=SECONDS)


def read(sock: socket.socket, size: int) -> bytes:
    """Return *size* bytes, or what came before the end."""
    got = b""
    while len(got) < size and (data := sock.recv(size - len(got))):
        got += data
    return got


def ending(sock: socket.socket) -> str:
    """Read to the end and return how it came: "closed" or "reset"."""
    try:
        while sock.recv(1 << 16):
            pass
    except ConnectionResetError:
        return "reset"
    return "closed"


def reaches(connecting: Callable[[], socket.socket]) -> str:
    """Connect and return how it ends: as `ending`, or "refused"; a reset may come before the call itself returns."""
    try:
        with connecting() as sock:
            return ending(sock)
    except ConnectionResetError:
        return "reset"
    except ConnectionRefusedError:
        return "refused"
