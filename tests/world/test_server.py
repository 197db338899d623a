"""What real clients do to a server: die, babble, hang on, come all at once."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from tests.waiting import until

CHAT = "/v1/chat/completions"


def ask(port: int, content: str = "hello", path: str = CHAT, **more: Any) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    request = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": content}]} | more
    connection.request("POST", path, json.dumps(request))
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, body


def raw(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


def world_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("world")]


def sockets() -> int:
    count = 0
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the folder's own descriptor
            count += os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
    return count


@pytest.mark.parametrize("path", [CHAT, "/v1/messages"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_same_request_gives_the_same_bytes(stage: Any, path: str, stream: bool) -> None:
    one, between, two = (ask(stage.world.port, text, path, stream=stream) for text in ("tea", "other", "tea"))
    assert one[0] == 200
    assert one == two != between


def test_half_a_request_is_no_request(stage: Any, capfd: Any) -> None:
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n".encode()
    for part in (head[:9], head[:40], head, head + b'{"model"'):
        answer = raw(stage.world.port, part)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
    assert ask(stage.world.port)[0] == 200
    assert len(stage.asked) == 1
    assert stage.world.failure is None
    assert capfd.readouterr() == ("", "")


KILLED = """
import socket, sys
client = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
body = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "much"}]}'
client.sendall(b"POST /v1/chat/completions HTTP/1.1\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
client.recv(10)
print("reading", flush=True)
sys.stdin.read()
"""


def test_a_client_killed_in_the_middle_of_a_stream(stage: Any, capfd: Any) -> None:
    agent = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(stage.world.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with agent:
        assert agent.stdout is not None and agent.stdout.readline() == b"reading\n"
        agent.send_signal(signal.SIGKILL)
    assert ask(stage.world.port)[0] == 200
    assert [event.status for event in stage.asked] == [200, 200]
    until(lambda: len(world_threads()) == 1)
    assert stage.world.failure is None
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) + b"\r\n\r\n", 400),
        (b"hello there, world server\r\n\r\n", 400),
        (b"POST /v1/messages HTTP/1.1\r\nContent-Length: -5\r\n\r\n", 400),
        (b"POST /v1/messages HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", 413),
        (b"POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST /v1/messages HTTP/1.1\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (b"POST /v1/messages HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", 431),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"BREW /v1/messages HTTP/1.1\r\n\r\n", 501),
        (b"GET /v1/messages HTTP/1.1\r\n\r\n", 405),
        (b"PUT /v1/messages HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 405),
        (b"POST /v1/messages HTTP/1.1\r\n\r\n", 400),
        (b"POST /v1/messages HTTP/1.1\r\nx-stainless-retry-count: no\r\nContent-Length: 2\r\n\r\n{}", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /v1/models HTTP/1.0\r\n\r\n", 200),
    ],
)
def test_garbage_gets_a_proper_refusal(stage: Any, capfd: Any, data: bytes, status: int) -> None:
    head, _, body = raw(stage.world.port, data).partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert status == 200 or json.loads(body)["error"]["message"]
    assert ask(stage.world.port)[0] == 200
    assert stage.world.failure is None
    assert capfd.readouterr() == ("", "")


def test_concurrent_clients(stage: Any) -> None:
    status = {}

    def work(name: int) -> None:
        for turn in range(10):
            status[name, turn] = ask(stage.world.port, f"client {name}, {turn % 5}")[0]

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(status.values()) == [200] * 80
    assert sum(event.again for event in stage.asked) == 40
    assert len(stage.journal.path.read_bytes().splitlines()) == 80


def test_requests_share_a_connection_and_a_refusal_keeps_it(stage: Any) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", stage.world.port, timeout=5)
    connection.connect()
    first = connection.sock
    for body in ("{}", '{"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": true}', "nothing"):
        connection.request("POST", CHAT, body)
        connection.getresponse().read()
    assert connection.sock is first
    connection.close()


def test_close_is_immediate_and_leaves_nothing(stage: Any) -> None:
    port, before = stage.world.port, sockets() - 1  # it listens already
    opened = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(5)]
    opened[1].sendall(b"POST /v1/mess")
    body = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "much"}]}'
    opened[2].sendall(b"POST %b HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (CHAT.encode(), len(body)) + body)
    assert opened[2].recv(10) == b"HTTP/1.1 2", "a stream that nobody reads on"
    assert ask(port)[0] == 200
    until(lambda: len(world_threads()) == 6)
    began = time.monotonic()
    stage.world.close()
    assert time.monotonic() - began < 0.2
    assert world_threads() == []
    for client in opened:
        client.close()
    assert sockets() == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    stage.world.close()


def test_nothing_is_journalled_after_close(stage: Any) -> None:
    stage.brain.hold = threading.Event()
    port = stage.world.port
    outcome: list[Any] = []

    def client() -> None:
        try:
            outcome.append(ask(port))
        except (OSError, http.client.HTTPException) as error:
            outcome.append(error)

    asking = threading.Thread(target=client)
    asking.start()
    until(lambda: len(world_threads()) == 2)
    threading.Timer(0.1, stage.brain.hold.set).start()
    stage.world.close()
    asking.join()
    assert isinstance(outcome[0], Exception)
    assert stage.journal.events == []
    assert stage.world.failure is None
    assert world_threads() == []


def test_a_world_is_for_one_run(stage: Any) -> None:
    stage.world.close()
    with pytest.raises(RuntimeError, match="start"):
        stage.world.env()
    with pytest.raises(RuntimeError, match="one run"):
        stage.world.start()
