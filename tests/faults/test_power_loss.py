"""A real power loss: the file system is stopped with nothing written back, and mounted again."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest

from chaos import leftovers
from chaos.events.done import PowerLost
from chaos.events.seen import Exited
from chaos.faults.power_loss import PowerLoss
from chaos.journal import AnyEvent
from chaos.sandbox import disk
from chaos.targets.reference.strategies.chat_history import ChatHistory
from chaos.targets.reference.strategies.semantic import Semantic
from chaos.verdict import CellVerdict
from tests import toy

needs_disk = pytest.mark.skipif(bool(disk.missing("ext4")), reason=disk.missing("ext4"))

SYNCING = """
def keep(path, data):
    with open(path, "a") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.fsync(os.open(path.parent, os.O_RDONLY))
kept = toy.DURABLE / "kept"
say((kept.read_text() if kept.exists() else "nothing", sorted(os.listdir(toy.DURABLE))))
if not kept.exists():
    keep(kept, "synced")
    kept.open("a").write(", not synced")
    (toy.DURABLE / "new").write_text("neither")
work()
"""


@needs_disk
@pytest.mark.parametrize("fs", ["ext4", "xfs"])
def test_what_was_synced_is_there_and_what_was_not_is_gone(tmp_path: Path, fs: str) -> None:
    if reason := disk.missing(fs):
        pytest.skip(reason)
    ran = toy.run(tmp_path, SYNCING, "power_loss@1/after_act", {"power_loss": PowerLoss(fs)})  # type: ignore[arg-type]
    assert ran.statuses == [-signal.SIGKILL, 0]
    assert ran.told == ["('nothing', [])", "('synced', ['kept'])"]
    (landed,) = ran.landed
    assert (landed.at, landed.how) == ("1/after_act", f"power cut on {fs}")
    assert landed.evidence["refused"] == "EIO"
    assert landed.evidence["lost_files"] == 4  # new, the log, and two files of the workspace
    assert landed.evidence["changed_files"] == 1
    assert "durable/kept" in str(landed.evidence["paths"])
    assert ran.record.finished


@needs_disk
def test_one_that_loses_nothing_says_so(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, "os.sync(); work()", "power_loss@0/before_think", {"power_loss": PowerLoss()})
    (landed,) = ran.landed
    assert landed.how == "power cut on ext4, nothing was un-synced"
    assert (landed.evidence["lost_files"], landed.evidence["lost_bytes"]) == (0, 0)


@needs_disk
def test_again_while_it_recovers(tmp_path: Path) -> None:
    plan = "power_loss@1/after_commit+power_loss@recovery/0/after_act"  # nothing was synced, so it begins anew
    ran = toy.run(tmp_path, "work()", plan, {"power_loss": PowerLoss()})
    assert ran.statuses == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert len(ran.landed) == 2
    assert ran.reached("after_load") == [0, 0, 0]


@needs_disk
def test_a_point_that_is_never_reached_proves_nothing(tmp_path: Path) -> None:
    run, cell = toy.replay(tmp_path, PowerLoss(), "power_loss@9/after_act")
    assert (run.landed, run.verdict, cell.passed) == ((), CellVerdict.NOT_EXERCISED, False)
    assert run.missed == ("the agent never came to power_loss@9/after_act",)


@needs_disk
def test_nothing_is_left_behind(tmp_path: Path) -> None:
    prefix = f"{leftovers.PREFIX}{os.getpid()}-"
    before = set(Path(tempfile.gettempdir()).glob(f"{prefix}*"))
    toy.run(tmp_path, "work()", "power_loss@1/after_act", {"power_loss": PowerLoss()})
    assert [point for point in leftovers.mounts_below(Path("/")) if prefix in point] == []
    assert set(Path(tempfile.gettempdir()).glob(f"{prefix}*")) == before


def lost(refused: str = "EIO") -> PowerLost:
    return PowerLost(
        at=1.0, attempt=1, filesystem="ext4", refused=refused, files=3, lost_files=1, changed_files=0,
        reappeared_files=0, lost_bytes=4, paths=("durable/a",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("events", "lands"),
    [
        ([Exited(at=1.0, attempt=1, status=-9), lost()], True),
        ([Exited(at=1.0, attempt=1, status=-9), lost("")], False),  # the disk still took a write
        ([Exited(at=1.0, attempt=1, status=1), lost()], False),
        ([Exited(at=1.0, attempt=1, status=-9)], False),
        ([lost()], False),
    ],
)
def test_a_kill_and_a_dead_disk_are_a_power_loss(events: list[AnyEvent], lands: bool) -> None:
    assert (PowerLoss().landed("1/after_act", events) is not None) is lands


def test_what_is_on_other_disks_is_not_its_business() -> None:
    assert "redis" in PowerLoss().unsuited(None, ChatHistory(database="redis"))
    assert "outside" in PowerLoss().unsuited(None, Semantic())
    assert PowerLoss().unsuited(None, ChatHistory()) == ""
