"""Whole trees stopped, let go on, and seen in /proc; two sandboxes on one durable zone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.sandbox.process import ProcessSandbox
from chaos.sandbox.processes import descendants
from chaos.sandbox.tree import alive, settled, state
from tests.waiting import PATIENCE, until

TREE = "import os, time\nos.fork(); os.fork()\nwhile True: open(str(os.getpid()), 'a').write('.'); time.sleep(.01)"


@pytest.fixture(params=[True, False], ids=["namespaces", "none"])
def box(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ProcessSandbox]:
    box = ProcessSandbox(tmp_path / "box", 0, "alpha", namespaces=request.param)
    yield box
    box.close()


def written(box: ProcessSandbox) -> int:
    return sum(path.stat().st_size for path in box.zones.workspace.iterdir())


def test_a_stopped_tree_does_nothing_until_it_may(box: ProcessSandbox) -> None:
    box.start([sys.executable, "-S", "-c", TREE], dict(os.environ))
    until(lambda: len(list(box.zones.workspace.iterdir())) == 4)
    stopped = box.stop()
    assert box.pid in stopped
    assert [settled(pid, "T") for pid in stopped] == ["T"] * 4
    before = written(box)
    time.sleep(0.05)
    assert written(box) == before
    assert box.wait(0) is None
    box.resume()
    until(lambda: written(box) > before)


def test_what_is_stopped_can_be_killed(box: ProcessSandbox) -> None:
    box.start([sys.executable, "-S", "-c", TREE], dict(os.environ))
    until(lambda: len(list(box.zones.workspace.iterdir())) == 4)
    stopped = box.stop()
    box.kill()
    assert box.wait(PATIENCE) == -9
    until(lambda: not any(alive(pid) for pid in stopped))


def test_nobody_is_stopped_where_nobody_lives(box: ProcessSandbox) -> None:
    assert box.stop() == ()
    box.resume()


def test_two_sandboxes_share_a_durable_zone(tmp_path: Path) -> None:
    first = ProcessSandbox(tmp_path / "first", 0, "alpha")
    (first.zones.durable / "kept").write_text("by the first")
    (first.zones.workspace / "own").touch()
    second = ProcessSandbox(tmp_path / "second", 0, "beta", shares=first.zones)
    try:
        assert (second.zones.durable / "kept").read_text() == "by the first"
        assert list(second.zones.workspace.iterdir()) == []
        (second.zones.durable / "more").touch()
    finally:
        second.close()
    assert not second.zones.root.exists()
    assert sorted(path.name for path in first.zones.durable.iterdir()) == ["kept", "more"]
    first.close()
    assert not first.zones.root.exists()


def test_a_shared_disk_stays_with_its_owner(tmp_path: Path) -> None:
    first = ProcessSandbox(tmp_path / "first", 0, "alpha")
    (first.zones.workspace / "own").touch()
    second = ProcessSandbox(first.zones.root, 0, "alpha", shares=first.zones)
    assert (second.zones.workspace / "own").exists()
    second.close()
    assert (first.zones.workspace / "own").exists()
    first.close()
    assert not first.zones.root.exists()


def test_the_state_of_a_process_is_what_proc_says() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    assert settled(child.pid, "S") == "S"
    assert alive(child.pid)
    assert child.pid in descendants(os.getpid())
    child.kill()
    assert settled(child.pid, "Z") == "Z"  # killed, and not reaped
    assert not alive(child.pid)
    child.communicate()
    assert state(child.pid) == ""
    assert not alive(0)
