"""Calls on the durable zone that fail with an error of ours, which the kernel hands to the agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.events.done import CallFailed
from chaos.faults.io_error import IoError
from chaos.sandbox import syscalls
from chaos.targets.reference.strategies.chat_history import ChatHistory
from chaos.targets.reference.strategies.semantic import Semantic
from chaos.verdict import CellVerdict
from tests import toy

needs_syscalls = pytest.mark.skipif(bool(syscalls.missing()), reason=syscalls.missing())

EACH = """
path = toy.DURABLE / "a"
file = os.open(path, os.O_RDWR | os.O_CREAT)
def tried(call, *arguments):
    try:
        say(f"{call.__name__} {call(*arguments)}")
    except OSError as error:
        say(f"{call.__name__} {error.strerror}")
point = toy.point
point("before_think", 0)
for _ in range(2):
    tried(os.write, file, b"x")
    tried(os.pwrite, file, b"x", 0)
    tried(os.fsync, file)
    tried(os.fdatasync, file)
    tried(os.rename, path, path)
work()
"""


@needs_syscalls
@pytest.mark.parametrize(
    ("syscall", "error", "times", "failing"),
    [
        ("fsync", "EIO", 1, ["fsync Input/output error"]),
        ("fsync", "EROFS", 2, ["fsync Read-only file system", "fdatasync Read-only file system"]),
        ("write", "ENOSPC", 2, ["write No space left on device", "pwrite No space left on device"]),
        ("rename", "EDQUOT", 1, ["rename Disk quota exceeded"]),
    ],
)  # fmt: skip
def test_the_next_calls_of_its_kind_fail_and_no_other(
    tmp_path: Path, syscall: str, error: str, times: int, failing: list[str]
) -> None:
    fault = IoError(syscall, error, times)  # type: ignore[arg-type]
    ran = toy.run(tmp_path, EACH, "io_error@0/before_think", {"io_error": fault})
    refused = [said for said in ran.told if not said.split(" ", 1)[1].isdigit() and not said.endswith("None")]
    assert refused == failing
    assert [call.error for call in ran.all(CallFailed)] == [error] * times
    (landed,) = ran.landed
    assert landed.evidence["failed_calls"] == times


@needs_syscalls
def test_other_files_are_none_of_its_business(tmp_path: Path) -> None:
    code = """
with open("elsewhere", "wb", buffering=0) as file:
    toy.point("before_think", 0)
    file.write(b"x")
    os.fsync(file.fileno())
work()
"""
    ran = toy.run(tmp_path, code, "io_error@0/before_think", {"io_error": IoError("fsync")})
    assert ran.statuses == [0]
    assert ran.landed == ()


@needs_syscalls
def test_an_agent_that_fails_loudly_comes_back(tmp_path: Path) -> None:
    run, cell = toy.replay(tmp_path, IoError("write"), "io_error@1/after_act")
    assert (run.verdict, run.attempts, len(run.landed), cell.passed) == (CellVerdict.RECOVERED, 2, 1, True)


@needs_syscalls
def test_a_run_without_such_a_call_was_not_hit(tmp_path: Path) -> None:
    run, cell = toy.replay(tmp_path, IoError("rename"), "io_error@1/after_act")
    assert (run.landed, run.verdict, cell.passed) == ((), CellVerdict.NOT_EXERCISED, False)
    assert "left no proof" in run.missed[0]


def test_what_is_stored_elsewhere_is_none_of_its_business() -> None:
    from chaos.stores.jsonl import Jsonl

    assert "stores nothing" in IoError().unsuited(None, toy.Forgets())
    assert "redis" in IoError().unsuited(Jsonl(), ChatHistory(database="redis"))
    assert "outside" in IoError().unsuited(Jsonl(), Semantic())
    assert IoError().unsuited(Jsonl(), toy.Keeps()) == ""


@needs_syscalls
def test_only_its_own_error_is_its_proof() -> None:
    failed = CallFailed(at=1.0, attempt=1, phase="fsync", number=3, name="fsync", path="durable/a", error="EIO")
    assert IoError().landed("1/after_act", [failed]) is not None
    assert IoError(error="EROFS").landed("1/after_act", [failed]) is None
