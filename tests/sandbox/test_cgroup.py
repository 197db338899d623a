"""Memory cgroups of this machine's kernel: limits, counters, kills, and what dead harnesses left."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.errors import HarnessError
from chaos.sandbox import hierarchy
from chaos.sandbox.cgroup import Cgroup, CgroupV1, CgroupV2
from tests.waiting import PATIENCE

MB = 1 << 20
JOIN = 'echo 0 > "$1" && shift && exec "$@"'

pytestmark = pytest.mark.skipif(bool(hierarchy.find_parent().missing), reason=hierarchy.find_parent().missing or "-")


@pytest.fixture
def group() -> Iterator[Cgroup]:
    group = hierarchy.create(hierarchy.find_parent(), 64 * MB)
    yield group
    group.remove()
    group.remove()  # twice is fine
    assert not [folder for folder in group.folders if folder.exists()]


def join(group: Cgroup, *command: str) -> subprocess.Popen[bytes]:
    """Start a process inside *group* and wait until it is in."""
    process = subprocess.Popen(["/bin/sh", "-c", JOIN, "sh", str(group.procs[0]), *command])
    deadline = time.monotonic() + PATIENCE
    while process.pid not in group.pids():
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return process


def test_limit_usage_and_counter_are_read_back(group: Cgroup) -> None:
    assert group.limit() == 64 * MB
    assert group.oom_kills() == 0
    group.set_limit(32 * MB)
    assert group.limit() == 32 * MB
    group.set_limit(0)
    assert group.limit() > 1 << 50
    process = join(group, "sleep", "1000")
    assert group.usage() > 0
    assert group.pids() == {process.pid}
    process.kill()
    process.wait()


def test_name_tells_whose_it_is(group: Cgroup) -> None:
    assert re.fullmatch(rf"chaos-\d+-{os.getpid()}-\d+", group.memory.name)
    assert {folder.name for folder in group.folders} == {group.memory.name}


def test_too_much_memory_is_an_oom_kill_without_swap(group: Cgroup) -> None:
    process = join(group, sys.executable, "-I", "-S", "-c", "x = bytearray(200 << 20)")
    assert process.wait(PATIENCE) == -9
    assert group.oom_kills() > 0


def test_squeeze_kills_a_sleeping_process(group: Cgroup) -> None:
    process = join(group, sys.executable, "-I", "-S", "-c", "import time; x = bytearray(20 << 20); time.sleep(1000)")
    while group.usage() < 20 * MB:
        time.sleep(0.002)
    Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
    limit = group.squeeze(None)
    assert process.wait(PATIENCE) == -9
    assert group.oom_kills() > 0
    assert limit < 64 * MB


def test_remove_kills_what_is_in_it() -> None:
    group = hierarchy.create(hierarchy.find_parent(), 64 * MB)
    process = join(group, "sleep", "1000")
    group.remove()
    assert process.wait(PATIENCE) == -9
    assert not group.memory.exists()


def test_stale_cgroups_of_dead_harnesses_are_swept(group: Cgroup) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    parent = hierarchy.find_parent()
    assert parent.memory
    kind = CgroupV1 if parent.controller == "v1" else CgroupV2
    names = {
        "stale": f"{hierarchy._prefix()}{dead.pid}-0",
        "of another PID namespace": f"chaos-1-{dead.pid}-0",
        "not ours": f"chaos-{dead.pid}",
    }
    groups = {what: kind((parent.memory / name,)) for what, name in names.items()}
    for stale in groups.values():
        stale.make()
    process = join(groups["stale"], "sleep", "1000")
    hierarchy._sweep(parent)
    left = {what for what, stale in groups.items() if stale.memory.exists()}
    for stale in groups.values():
        stale.remove()
    assert left == {"of another PID namespace", "not ours"}
    assert process.wait(PATIENCE) == -9
    assert group.memory.exists(), "a living harness keeps its cgroups"


def test_a_folder_that_cannot_be_used_is_named_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(hierarchy.VARIABLE, str(tmp_path / "none"))
    parent = hierarchy.find_parent()
    assert parent.memory is None
    assert str(tmp_path / "none") in parent.missing and "No such file" in parent.missing
    assert hierarchy.VARIABLE in parent.missing and ("systemd-run" in parent.missing or "chown" in parent.missing)
    with pytest.raises(HarnessError, match="no memory cgroup"):
        hierarchy.create(parent, MB)


def test_a_named_folder_is_used(group: Cgroup, monkeypatch: pytest.MonkeyPatch) -> None:
    if hierarchy.find_parent().controller == "v2":
        pytest.skip("a v2 cgroup with a parent's limits set may hold either processes or children")
    monkeypatch.setenv(hierarchy.VARIABLE, str(group.memory))
    below = hierarchy.create(hierarchy.find_parent(), MB)
    assert below.memory.parent == group.memory
    below.remove()


def test_part_of_a_hierarchy_in_a_container() -> None:
    mount = Path("/m")
    assert hierarchy._below(mount, "/", "/a/b") == Path("/m/a/b")
    assert hierarchy._below(mount, "/docker/1", "/docker/1") == mount
    assert hierarchy._below(mount, "/docker/1", "/docker/1/x") == Path("/m/x")
    assert hierarchy._below(mount, "/docker/1", "/") == mount
