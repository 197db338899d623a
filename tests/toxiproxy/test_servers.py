"""Which server it is: ours, a program, or somebody's; and what is wrong with what was said."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from chaos.errors import HarnessError
from chaos.toxiproxy.servers import PROGRAM, opened


def test_ours_is_the_default_and_gone_afterwards(tmp_path: Path) -> None:
    with opened("", tmp_path, 1) as server:
        address = server.client.address
        assert server.name == "embedded 2.12.0"
        server.client.create("p", "127.0.0.1:9")
    with pytest.raises(HarnessError), opened(address, tmp_path, 1):
        pass


def test_somebody_s_stays(tmp_path: Path) -> None:
    with opened("", tmp_path, 1) as theirs:
        with opened(f"http://{theirs.client.address}/", tmp_path, 2) as server:
            server.client.create("p", "127.0.0.1:9")
        assert theirs.client.names() == ["p"]


def test_a_program_is_started_and_stopped(tmp_path: Path) -> None:
    program = shutil.which(PROGRAM)
    if program is None:
        pytest.skip(f"no {PROGRAM} on the PATH: .ci/toxiproxy builds it")
    for named in (PROGRAM, program):
        with opened(named, tmp_path, 1) as server:
            address = server.client.address
            assert server.name == f"{PROGRAM} 2.12.0"
        with pytest.raises(HarnessError), opened(address, tmp_path, 1):
            pass


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("toxiproxie-server", "neither a program on the PATH nor HOST:PORT"),
        ("127.0.0.1", "write toxiproxy-server or 127.0.0.1:8474"),
        ("toxiproxy.example:8474", "must run on this machine"),
        ("127.0.0.1:9", "refused"),
    ],
)
def test_what_cannot_be_a_server(wanted: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=told), opened(wanted, tmp_path, 1):
        pass
