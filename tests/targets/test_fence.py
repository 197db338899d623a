"""The fence of the planted agents' correct sibling, between real processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from chaos.targets.planted.bugs.no_fence import NoFence
from chaos.targets.planted.fence import Fence, Fenced

HOLDER = """
import sys, time
from pathlib import Path
from chaos.targets.planted.fence import Fence
fence = Fence(Path(sys.argv[1])); fence.take()
with fence.held():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_who_took_over_last_may_act(tmp_path: Path) -> None:
    first, second = Fence(tmp_path), Fence(tmp_path)
    first.take()
    with first.held():
        pass
    second.take()
    with pytest.raises(Fenced, match="worker 2 has taken over from worker 1"), first.held():
        raise AssertionError("it must not come to this")
    with second.held():
        pass


def test_who_has_not_taken_over_may_not_act(tmp_path: Path) -> None:
    Fence(tmp_path).take()
    with pytest.raises(Fenced), Fence(tmp_path).held():
        pass


def test_nobody_takes_over_in_the_middle_and_a_death_lets_go(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        fence = Fence(tmp_path)
        taking = threading.Thread(target=fence.take)
        taking.start()
        taking.join(0.05)
        assert taking.is_alive()
        holder.kill()
        taking.join(20)
        assert not taking.is_alive()
        with fence.held():
            pass


def test_the_bug_is_a_fence_that_is_always_open(tmp_path: Path) -> None:
    made = type("Zones", (), {"durable": tmp_path})
    bug = NoFence.__new__(NoFence)
    bug.zones = made  # type: ignore[assignment]
    first, second = bug.make_fence(), bug.make_fence()
    first.take()
    second.take()
    with first.held(), second.held():
        pass
