"""Listening ports as the kernel tells them, by either way."""

from __future__ import annotations

import os
import socket

import pytest

from chaos.sandbox import listening
from chaos.sandbox.listening import listening as found


def link(listener: socket.socket) -> str:
    return os.readlink(f"/proc/self/fd/{listener.fileno()}")


@pytest.mark.parametrize("refused", [False, True], ids=["asked", "read"])
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["v4", "v6"])
def test_a_listening_socket_is_found(family: int, refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if refused:
        monkeypatch.setattr(listening, "SOCK_DIAG", 99)  # no such protocol
    try:
        server = socket.create_server(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), family=family)
    except OSError as error:
        pytest.skip(f"no such address here: {error}")
    with server, socket.socket(family) as idle, socket.socket(family) as client:
        client.connect(server.getsockname())
        sockets = found()
        assert sockets[link(server)] == server.getsockname()[1]
        assert link(client) not in sockets
        assert link(idle) not in sockets
    assert server.fileno() == -1


def test_both_ways_tell_the_same() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        asked, read = dict(listening._asked()), dict(listening._read())
        for server in (one, other):
            inode = int(link(server)[8:-1])
            assert asked[inode] == read[inode] == server.getsockname()[1]
