"""Ports are free, claimed by one sandbox only, and given back."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from chaos import ports
from chaos.errors import HarnessError


def test_a_claimed_port_is_free_and_below_the_ephemeral_ones() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    with ports.claimed(("A", "B")) as taken:
        assert [name for name, _ in taken] == ["A", "B"]
        for _, port in taken:
            assert ports.FIRST <= port < min(ports.LAST, lowest)
            socket.create_server(("127.0.0.1", port)).close()


def test_claims_never_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "LAST", ports.FIRST + 3)
    with ports.claimed(("A", "B", "C")) as taken:
        assert len({port for _, port in taken}) == 3
        with pytest.raises(HarnessError, match="no TCP port"), ports.claimed(("D",)):
            pass
    with ports.claimed(("A", "B", "C")):
        pass


def test_a_port_in_use_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with ports.claimed(("A",)) as ((_, port),):
        pass
    monkeypatch.setattr(ports, "FIRST", port)
    monkeypatch.setattr(ports, "LAST", port + 2)
    with socket.create_server(("127.0.0.1", port)), ports.claimed(("A",)) as ((_, other),):
        assert other == port + 1


def test_the_claim_of_a_dead_process_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from chaos import ports; c = ports.claimed(('A',)); print(c.__enter__()[0][1], flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        port = int(holder.stdout.readline())
        monkeypatch.setattr(ports, "FIRST", port)
        monkeypatch.setattr(ports, "LAST", port + 1)
        with pytest.raises(HarnessError), ports.claimed(("A",)):
            pass
        holder.kill()
    with ports.claimed(("A",)) as ((_, again),):
        assert again == port
