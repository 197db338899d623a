"""The kernel's OOM killer, proved by its own counter."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from chaos.events.done import DiskWiped, MemoryClamped, Signalled
from chaos.events.seen import Exited
from chaos.faults.oom_kill import OomKill
from chaos.journal import AnyEvent
from chaos.sandbox.process import able
from chaos.verdict import CellVerdict
from tests import toy

needs_memory = pytest.mark.skipif(bool(able().memory_limit), reason=able().memory_limit or "-")

TOO_HIGH = 512 << 20  # the toy needs some ten MB
LISTS = "say(sorted(os.listdir())); work()"


@needs_memory
@pytest.mark.parametrize("loses", ["container", "process"])
def test_the_kernel_kills_and_counts(tmp_path: Path, loses: str) -> None:
    fault = OomKill(loses=loses)  # type: ignore[arg-type]
    ran = toy.run(tmp_path, LISTS, "oom_kill@1/after_act", {"oom_kill": fault})
    assert ran.statuses == [-signal.SIGKILL, 0]
    assert not ran.all(Signalled)
    (landed,) = ran.landed
    assert landed.how == "killed by the kernel"
    before, after = landed.evidence["oom_kill_before"], landed.evidence["oom_kill_after"]
    assert before == 0 < int(after) == ran.all(Exited)[0].oom_kill
    if loses == "container":
        assert landed.evidence["entries_lost"] == 2
        assert ran.told == ["[]", "[]"]
    else:
        assert "entries_lost" not in landed.evidence
        assert ran.told == ["[]", "['0.txt', '1.txt']"]


@needs_memory
def test_every_kill_of_a_run_has_its_own_count(tmp_path: Path) -> None:
    plan = "oom_kill@0/after_act+oom_kill@recovery/1/after_act"
    ran = toy.run(tmp_path, "work()", plan, {"oom_kill": OomKill()})
    assert ran.statuses == [-signal.SIGKILL, -signal.SIGKILL, 0]
    first, second = (landed.evidence for landed in ran.landed)
    assert first["oom_kill_after"] == second["oom_kill_before"]
    assert int(second["oom_kill_after"]) > int(second["oom_kill_before"])


@needs_memory
def test_a_limit_that_is_too_high_misses(tmp_path: Path) -> None:
    run, cell = toy.replay(tmp_path, OomKill(limit=TOO_HIGH), "oom_kill@1/after_act")
    assert run.landed == ()
    assert run.verdict is cell.verdict is CellVerdict.NOT_EXERCISED
    assert not cell.passed
    assert run.attempts == 1  # the agent went on as if nothing had been


def clamped(before: int, after: int) -> MemoryClamped:
    return MemoryClamped(at=1.0, attempt=1, limit_bytes=1, usage_bytes=2, oom_kill_before=before, oom_kill_after=after)


def exited(status: int) -> Exited:
    return Exited(at=2.0, attempt=1, status=status, oom_kill=1)


def sent(at: float) -> Signalled:
    return Signalled(at=at, attempt=1, pid=7, signal=signal.SIGKILL)


@pytest.mark.parametrize(
    ("events", "lands"),
    [
        ([clamped(0, 1), exited(-9)], True),
        ([clamped(4, 6), exited(-9)], True),  # an agent and its child
        ([clamped(0, 1), exited(-9), sent(at=3.0)], True),  # a signal to a later incarnation takes nothing away
        ([clamped(0, 0), exited(-9)], False),  # a SIGKILL that the kernel did not count
        ([clamped(1, 1), exited(-9)], False),
        ([clamped(0, 1), sent(at=1.5), exited(-9)], False),  # ours may have been first
        ([clamped(0, 1), exited(0)], False),
        ([clamped(0, 1), exited(1)], False),  # a MemoryError is another fault
        ([clamped(0, 1)], False),
        ([exited(-9)], False),
        ([], False),
    ],
)
def test_status_and_counter_and_no_signal_of_ours(events: list[AnyEvent], lands: bool) -> None:
    assert (OomKill().landed("1/after_act", events) is not None) is lands


def test_what_the_disk_lost_is_part_of_the_proof() -> None:
    wiped = DiskWiped(at=3.0, attempt=1, zones=("workspace", "tmp"), files=5)
    landed = OomKill().landed("1/after_act", [clamped(0, 1), exited(-9), wiped])
    assert landed is not None
    assert landed.evidence["entries_lost"] == 5


@pytest.mark.skipif(not able().memory_limit, reason="this machine can")
def test_a_machine_that_cannot_says_why() -> None:
    assert OomKill().missing(able()) == able().memory_limit
