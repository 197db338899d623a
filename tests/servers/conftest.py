"""Servers in folders that their users can reach, and harnesses in processes of their own that can be killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import chaos
from chaos import registry

NOBODY = 65534
SECONDS = 20.0
HARNESS = """
import os, sys
from chaos.pool import Pool
pool = Pool()
with pool.leases(sys.argv[1:]) as leases:
    print(os.getuid(), *(lease.url for lease in leases.parts.values()), leases.stored_bytes(), flush=True)
    sys.stdin.read()
pool.close()
"""
TRIAL = """
import sys
from chaos import pool
sys.exit(bool(pool.Pool().missing(sys.argv[1])))
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that every user can come through; pytest's own are for ourselves alone."""
    made = Path(tempfile.mkdtemp(prefix="chaos-test-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest, folder: Path) -> Iterator[Any]:
    """The server that the module's constant NAME names, started; skips where it is missing."""
    server = registry.load("servers", request.module.NAME)()
    if missing := server.missing(""):
        pytest.skip(missing)
    (folder / "server").mkdir()
    started = server.open(folder / "server", "")
    yield started
    started.close()
    assert not (folder / "server").exists()


@pytest.fixture
def harness(folder: Path) -> Iterator[Start]:
    """Start a harness in a process of its own that holds a lease on a server until its standard input ends."""
    began = []

    def start(name: str, *prefix: str) -> subprocess.Popen[str]:
        env = {**os.environ, "TMPDIR": str(folder)}
        command = [*(prefix or (sys.executable,)), "-c", HARNESS, name]
        began.append(subprocess.Popen(command, env=env, text=True, stdin=-1, stdout=-1, stderr=-1, cwd="/"))
        return began[-1]

    yield start
    for process in began:
        process.kill()
        process.communicate()


@pytest.fixture
def nobody(folder: Path) -> Iterator[Callable[[str], tuple[str, ...]]]:
    """Return the command of an interpreter as an ordinary user, who owns the folder; skips where there is none."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root with setpriv (util-linux) can become another user")
    paths = ":".join(str(Path(module.__file__ or "").parents[1]) for module in (chaos, msgspec))
    drop = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", f"PYTHONPATH={paths}")

    def find(server: str) -> tuple[str, ...]:
        for python in (sys.executable, "/usr/bin/python3"):
            if subprocess.run([*drop, python, "-c", TRIAL, server], capture_output=True, cwd="/").returncode == 0:
                return (*drop, python)
        pytest.skip("no Python interpreter with our packages that an unprivileged user may run")

    os.chown(folder, NOBODY, NOBODY)
    yield find
    os.chown(folder, os.getuid(), os.getgid())


@pytest.fixture
def live(folder: Path) -> Callable[[bool], list[str]]:
    """Return the processes at work in folders of other harnesses, once there are some (True) or none (False)."""

    def look() -> list[str]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    where = os.readlink(entry / "cwd")
                except OSError:
                    continue
                if where.startswith(f"{folder}/chaos-"):
                    found.append(entry.name)
        return found

    def wait(wanted: bool) -> list[str]:
        end = time.monotonic() + SECONDS
        while bool(found := look()) != wanted and time.monotonic() < end:
            time.sleep(0.02)
        return found

    return wait
