"""A disk that is really full: the kernel's ENOSPC, as strace saw it."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.events.done import CallFailed, DiskFilled, DiskFreed
from chaos.faults.disk_full import DiskFull
from chaos.journal import AnyEvent
from chaos.sandbox import disk, strace
from chaos.verdict import CellVerdict
from tests import toy

lacks = disk.missing("ext4") or strace.missing()
needs_disk = pytest.mark.skipif(bool(lacks), reason=lacks)

FREE = "about = os.statvfs(toy.DURABLE); say(about.f_bavail * about.f_frsize > 1 << 20)\n"


@needs_disk
def test_it_fails_and_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, FREE + "work()", "disk_full@1/after_act", {"disk_full": DiskFull()})
    assert ran.statuses == [1, 0]
    assert ran.told == ["True", "True"]
    assert "No space left on device" in ran.record.exits[0].log
    (landed,) = ran.landed
    assert "ENOSPC" in str(landed.evidence["first"])
    assert int(landed.evidence["failed_calls"]) >= 1
    (filled,), (freed,) = ran.all(DiskFilled), ran.all(DiskFreed)
    assert filled.free_after_bytes == 0 < filled.free_before_bytes
    assert freed.free_bytes > 1 << 20


@needs_disk
def test_it_may_last_over_several_starts(tmp_path: Path) -> None:
    fault = DiskFull(until="seconds", seconds=0.4)
    patient = """
def again():
    while True:
        try:
            return work()
        except OSError:
            say("full")
            time.sleep(0.05)
again()
"""
    ran = toy.run(tmp_path, patient, "disk_full@1/after_act", {"disk_full": fault})
    assert ran.statuses == [0]
    assert "full" in ran.told
    assert len(ran.landed) == 1
    (filled,), (freed,) = ran.all(DiskFilled), ran.all(DiskFreed)
    assert freed.at - filled.at >= 0.4


@needs_disk
def test_the_end_of_the_run_does_not_wait_for_the_time(tmp_path: Path) -> None:
    fault = DiskFull(until="seconds", seconds=1000)
    ran = toy.run(tmp_path, "work()", "disk_full@1/after_act", {"disk_full": fault}, backoff_limit=1)
    assert ran.statuses == [1, 1]
    assert (ran.record.ended, len(ran.landed)) == ("gave up", 1)


@needs_disk
def test_an_agent_that_needs_no_block_was_not_hit(tmp_path: Path) -> None:
    run, cell = toy.replay(tmp_path, DiskFull(), "disk_full@2/after_commit")  # all is written
    assert (run.landed, run.verdict, cell.passed) == ((), CellVerdict.NOT_EXERCISED, False)
    assert "left no proof" in run.missed[0]


@needs_disk
def test_at_a_system_call_that_call_fails(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, "work()", "disk_full@2/write", {"disk_full": DiskFull()})
    assert ran.statuses == [1, 0]
    assert [(call.number, call.error, call.path) for call in ran.all(CallFailed)] == [
        (2, "ENOSPC", "durable/history.jsonl")
    ]
    assert len(ran.landed) == 1


FILLED = DiskFilled(at=1.0, attempt=1, free_before_bytes=9, free_after_bytes=0)
LINE = "7 write(3</s/durable/log>, ...) = -1 ENOSPC (No space left on device)"


@pytest.mark.parametrize(
    ("events", "lands"),
    [
        ([FILLED, DiskFreed(at=2.0, attempt=1, free_bytes=9, failed=1, errors=(LINE,))], True),
        ([FILLED, DiskFreed(at=2.0, attempt=1, free_bytes=9, failed=0)], False),  # nobody needed a block
        ([FILLED], False),
        ([DiskFreed(at=2.0, attempt=1, free_bytes=9, failed=1, errors=(LINE,))], False),
    ],
)
def test_a_refused_call_is_the_proof(events: list[AnyEvent], lands: bool) -> None:
    assert (DiskFull().landed("1/after_act", events) is not None) is lands
