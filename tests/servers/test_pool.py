"""The pool, and what holds for every server: started once, leases apart, gone with the harness however that ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos import registry
from chaos.errors import HarnessError, UnknownName
from chaos.pool import Pool
from chaos.ports import claimed
from chaos.servers._address import shown

Live = Callable[[bool], list[str]]
NAMES = [
    pytest.param(name, marks=pytest.mark.skipif(bool(missing), reason=missing))
    for name in registry.names("servers")
    for missing in [registry.load("servers", name)().missing("")]
]


@pytest.mark.parametrize("name", NAMES)
def test_started_once_and_closed(name: str) -> None:
    pool = Pool()
    with pool.leases((name,)) as first, pool.leases((name,)) as second:
        one, two = first.parts[name], second.parts[name]
        assert first.running[name] is second.running[name]
        assert one.space != two.space
        assert one.url.startswith("postgresql://") or one.url == two.url
        assert first.stored_bytes() == 0
    assert pool.missing(name) == ""
    pool.close()
    pool.close()
    with pytest.raises(HarnessError):
        registry.load("servers", name)().open(Path("/nonexistent"), one.url)


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_harness_leaves_no_process(name: str, harness: Any, live: Live) -> None:
    process = harness(name)
    assert process.stdout.readline(), process.communicate()[1]
    assert live(True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert live(False) == []


@pytest.mark.parametrize("name", NAMES)
def test_an_ordinary_user_has_it_too(
    name: str, harness: Any, nobody: Callable[[str], tuple[str, ...]], live: Live, folder: Path
) -> None:
    process = harness(name, *nobody(name))
    said = process.stdout.readline().split()
    assert said and said[0] == "65534" and said[-1] == "0", process.communicate()[1]
    pids = live(True)
    assert pids and {os.stat(f"/proc/{pid}").st_uid for pid in pids} == {65534}
    assert process.communicate("")[1] == "" and process.returncode == 0
    assert live(False) == [] and not list(folder.glob(f"chaos-*-{process.pid}-*"))


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("postgresql://me:secret@db:5432/x", "postgresql://me:***@db:5432/x"),
        ("redis://:secret@host/0", "redis://:***@host/0"),
        ("redis://host:6379/0", "redis://host:6379/0"),
    ],
)
def test_a_password_is_not_told(address: str, told: str) -> None:
    assert shown(address) == told


@pytest.mark.parametrize("name", registry.names("servers"))
def test_nobody_at_an_address(name: str, tmp_path: Path) -> None:
    """A refused connection names the address and what would be right."""
    server = registry.load("servers", name)()
    with claimed((name,)) as ((_, port),):
        address = f"127.0.0.1:{port}"
        if server.missing(address):
            pytest.skip(server.missing(address))
        pool = Pool({name: address})
        assert pool.missing(name) == ""
        with pytest.raises(HarnessError, match=f"at {address} does not let us in .*--chaos-servers {name}="):
            pool.leases((name,)).__enter__()
        pool.close()


def test_an_unknown_server() -> None:
    with pytest.raises(UnknownName, match="did you mean 'postgres'"):
        Pool().missing("postgers")
