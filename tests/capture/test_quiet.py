"""Whether anything of a real process tree ran, and what it has mapped."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.capture import quiet
from tests.waiting import until

TREE = r"""
import os, sys, threading, time
if os.fork() == 0:
    if os.fork() == 0:
        sys.stdout.write(f"{os.getpid()}\n"); sys.stdout.flush()
        time.sleep(1000)
    os.wait()
thread = threading.Thread(target=lambda: os.fork() or time.sleep(1000))
thread.start(); thread.join()
sys.stdout.write("ready\n"); sys.stdout.flush()
for line in sys.stdin:
    sum(range(100_000))
    print("ran", flush=True)
"""


class Tree:
    """A process with a child, a grandchild, and a child that a thread of it made."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            (sys.executable, "-S", "-c", TREE), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        told = sorted((self.line(), self.line()))
        self.grandchild = int(told[0])
        until(lambda: len(quiet.tree(self.process.pid)) == 4)

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().decode().strip()

    def run(self) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        assert self.line() == "ran"

    def turns(self) -> tuple[object, ...]:
        """Return its turns when it is asleep again."""
        while True:
            before = quiet.turns(quiet.tree(self.process.pid))
            time.sleep(0.01)
            if before == quiet.turns(quiet.tree(self.process.pid)):
                assert before
                return before

    def close(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def tree() -> Iterator[Tree]:
    made = Tree()
    yield made
    made.close()


def test_a_tree_is_all_that_lives_below_a_process(tree: Tree) -> None:
    pids = quiet.tree(tree.process.pid)
    assert pids[0] == tree.process.pid and tree.grandchild in pids and len(set(pids)) == 4
    os.kill(tree.grandchild, signal.SIGKILL)
    until(lambda: tree.grandchild not in quiet.tree(tree.process.pid) or _is_dead(tree.grandchild))


def _is_dead(pid: int) -> bool:
    return not quiet.turns((pid,)) or Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_tree_is_found_without_the_kernel_s_lists_of_children(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = set(quiet.tree(tree.process.pid))
    monkeypatch.setattr(quiet, "_CHILDREN", "/proc/self/no-such-list")
    monkeypatch.setattr(quiet, "_tasks", lambda pid: [f"/proc/{pid}/no-such-task"])
    found = quiet.tree(tree.process.pid)
    assert set(found) == pids and found[0] == tree.process.pid


def test_turns_are_equal_as_long_as_nothing_runs(tree: Tree) -> None:
    before = tree.turns()
    assert len(before) == 4 and tree.turns() == before
    tree.run()
    assert tree.turns() != before


def test_who_runs_all_the_time_is_never_still() -> None:
    """The kernel counts at its ticks, which two looks may fall between."""
    with subprocess.Popen((sys.executable, "-S", "-c", "while True: pass")) as process:
        pairs = [(quiet.turns((process.pid,)), quiet.turns((process.pid,))) for _ in range(1000)]
        process.kill()
    assert all(one != other for one, other in pairs[500:])  # at first it is still being started


def test_a_descendant_s_turns_count(tree: Tree) -> None:
    before = tree.turns()
    os.kill(tree.grandchild, signal.SIGSTOP)
    os.kill(tree.grandchild, signal.SIGCONT)
    until(lambda: quiet.turns(quiet.tree(tree.process.pid)) != before)


def test_a_process_that_ended_is_a_difference(tree: Tree) -> None:
    pids, before = quiet.tree(tree.process.pid), tree.turns()
    os.kill(tree.grandchild, signal.SIGKILL)
    until(lambda: quiet.turns(pids) != before)


def test_a_kernel_that_does_not_tell(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    exists = os.path.exists
    assert quiet.turns((tree.process.pid,)) is not None
    monkeypatch.setattr(quiet, "_tasks", lambda pid: ["/proc/self/task/0"])
    assert quiet.turns((tree.process.pid,)) == (), "only that process is gone"
    monkeypatch.setattr(os.path, "exists", lambda path: path != "/proc/self/schedstat" and exists(path))
    assert quiet.turns((tree.process.pid,)) is None


def test_files_that_are_mapped_to_be_written(tmp_path: Path) -> None:
    kinds = {"shared": mmap.ACCESS_WRITE, "private": mmap.ACCESS_COPY, "read": mmap.ACCESS_READ}
    maps = []
    for folder in ("zone", "zone beside", "zone/a folder with spaces"):
        (tmp_path / folder).mkdir()
        for name, access in kinds.items():
            path = tmp_path / folder / name
            path.write_bytes(b"x" * 4096)
            with path.open("r+b") as file:
                maps.append(mmap.mmap(file.fileno(), 4096, access=access))
    gone = tmp_path / "zone" / "gone"
    gone.write_bytes(b"x" * 4096)
    with gone.open("r+b") as file:
        maps.append(mmap.mmap(file.fileno(), 4096))
    gone.unlink()
    found = quiet.mapped((os.getpid(), 2**22 + 1), tmp_path / "zone")
    assert found == tuple(
        sorted(tmp_path / "zone" / name for name in ("a folder with spaces/shared", "gone", "shared"))
    )
    for each in maps:
        each.close()
    assert quiet.mapped((os.getpid(),), tmp_path / "zone") == ()
