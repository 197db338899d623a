"""The `cow` strategy on each medium: really killed, evicted and damaged, back at the right step, and nothing left."""

from __future__ import annotations

import functools
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos import leftovers, registry
from chaos.errors import ScenarioError
from chaos.events import Event
from chaos.events.seen import Exited, HostDid, Measured, Observed, Reached, Reloaded
from chaos.faults.corrupt_delta import CorruptDelta
from chaos.faults.evict import Evict
from chaos.faults.kill import Kill
from chaos.plan import parse_plan
from chaos.pool import Pool
from chaos.record import Record
from chaos.run import Setup, execute
from chaos.scenario import Limits
from chaos.targets.reference import Reference
from chaos.targets.reference.media import START
from chaos.targets.reference.strategies.cow import Cow
from tests.waiting import until

MEDIA = ("content", "reflink", "overlay", "btrfs", "zfs")
MOUNTED = MEDIA[1:]
SEED = 7
STEPS = 14  # one of each kind, and a few more
FAULTS = {"kill": Kill(), "evict": Evict(), "corrupt": CorruptDelta(which="first")}

each = pytest.mark.parametrize("medium", MEDIA)


def setup(medium: str, target: Reference | None = None, keep: int = 0) -> Setup:
    target = target or Reference(steps=STEPS)
    return Setup(
        target=target,
        strategy=Cow(snapshots=medium, keep=keep),  # type: ignore[arg-type]
        seed=SEED,
        brain=target.brain(SEED),
        watch=target.watch(),
        limits=Limits(backoff_limit=6),
        faults=FAULTS,
        store=registry.load("stores", "jsonl")(),
        pool=Pool(),
    )


def run(folder: Path, medium: str, plan: str = "no fault", keep: int = 0) -> Record:
    return execute(setup(medium, keep=keep), parse_plan(plan), folder, random.Random(SEED))


def all_of(record: Record, kind: type[Event]) -> list[Any]:
    return [event for event in record.events if isinstance(event, kind)]


@functools.cache
def reference() -> Record:
    """A run without a fault, on the content store."""
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder), "content")


def traces(folder: Path) -> list[str]:
    """Return mounts, loop devices and processes that have to do with *folder*."""
    loops = subprocess.run(["losetup", "--all"], capture_output=True, text=True).stdout.splitlines()
    found = [*(line for line in loops if str(folder) in line), *leftovers.mounts_below(folder)]
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/cwd").startswith(str(folder)):
                found.append(f"process {name}")
        except OSError:
            continue
    return found


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary folders, in which nothing may stay."""
    reference()
    folder = tmp_path / "tempo rary"  # the kernel's tables write a space in another way
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []
    until(lambda: not traces(folder), f"nothing is left: {traces(folder)}")


@pytest.fixture
def able(medium: str) -> str:
    """The medium, if it is possible here."""
    if reason := Cow(snapshots=medium).missing():  # type: ignore[arg-type]
        pytest.skip(reason)
    return medium


@each
def test_killed_and_evicted_it_comes_back_as_if_nothing_had_happened(tmp_path: Path, able: str) -> None:
    plan = "kill@0/during_commit+kill@3/after_act+evict@6/during_commit+evict@9/before_act+kill@12/after_commit"
    record = run(tmp_path / "run", able, plan)
    assert record.finished, all_of(record, Exited)[-1].log
    assert [event.step for event in all_of(record, Reached) if event.phase == "after_load"] == [0, 0, 3, 6, 9, 13]
    whole, last = all_of(reference(), Observed)[-1].seen, all_of(record, Observed)[-1].seen
    assert last.files == whole.files and last.packages == whole.packages
    assert [one.head for one in last.repositories] == [one.head for one in whole.repositories]
    ends = [next(event for event in all_of(one, Reached) if event.phase == "finished") for one in (reference(), record)]
    assert ends[0].state == ends[1].state
    (reloaded,) = all_of(record, Reloaded)
    assert not reloaded.error
    if able != "content":
        restored = [event.figures["step"] for event in all_of(record, HostDid) if event.what == "restore"]
        assert restored == [START, 2, 5, 8, 12]


@each
def test_each_resume_finds_the_files_of_its_step(tmp_path: Path, able: str) -> None:
    """As they were when the step before was committed: right after it, with more done since, and all of it lost."""
    record = run(tmp_path / "run", able, "kill@8/before_think+kill@8/after_act+evict@8/during_commit")
    back = [event for event in all_of(record, Observed) if event.phase == "after_load"]
    assert [event.step for event in back] == [8, 8, 8]
    assert back[0].seen.files == back[1].seen.files == back[2].seen.files
    assert len(back[0].seen.files) > 10


@each
def test_a_damaged_log_is_refused(tmp_path: Path, able: str) -> None:
    record = run(tmp_path / "run", able, "corrupt@5/after_commit")
    assert record.ended == "gave up"
    assert "CorruptStore: line 1 of history.jsonl is damaged" in all_of(record, Exited)[-1].log


@pytest.mark.parametrize("medium", MOUNTED)
def test_what_is_stored_and_written_is_told(tmp_path: Path, able: str) -> None:
    record = run(tmp_path / "run", able)
    (measured,), (exited,) = all_of(record, Measured), all_of(record, Exited)
    assert 40_000 < measured.stored_bytes < 20_000_000
    assert 100_000 < exited.written_bytes + exited.elsewhere_bytes < 200_000_000
    (taken,) = (event.figures for event in all_of(record, HostDid) if event.what == "snapshots")
    assert taken["taken"] == STEPS


@pytest.mark.parametrize("medium", ["content", "overlay"])
def test_a_bound_on_snapshots_costs_no_recovery(tmp_path: Path, able: str) -> None:
    record = run(tmp_path / "run", able, "evict@6/during_commit+evict@7/during_commit+kill@9/after_commit", keep=1)
    assert record.finished, all_of(record, Exited)[-1].log
    assert all_of(record, Observed)[-1].seen.files == all_of(reference(), Observed)[-1].seen.files


HARNESS = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
import test_cow_media as tests
from chaos.targets.reference.media.outside import Outside

def take(self, step, take=Outside._take):
    take(self, step)
    if step == 3:
        print("mid-run", flush=True)
        sys.stdin.read()

Outside._take = take
tests.run(Path(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.parametrize("medium", MOUNTED)
def test_a_killed_harness_leaves_nothing_that_the_next_does_not_find(
    tmp_path: Path, able: str, temporary: Path
) -> None:
    env = {**os.environ, "TMPDIR": str(temporary)}
    words = [sys.executable, "-c", HARNESS, str(tmp_path / "run"), able, str(Path(__file__).parent)]
    with subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"mid-run\n"
        assert traces(temporary)
        harness.send_signal(signal.SIGKILL)
    until(lambda: not [each for each in traces(temporary) if each.startswith("process")], "agent and daemon died")
    leftovers.sweep()
    assert list(temporary.iterdir()) == []


def test_without_its_other_half_it_does_not_pretend(make_bench: Callable[..., Any]) -> None:
    bench = make_bench(Reference(steps=12))
    assert bench.incarnation(Cow(snapshots="btrfs")) == 1
    assert "nobody took the btrfs snapshot of step 0: run it in the harness" in bench.error
    assert not (bench.root / "durable/cow/manifest.json").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"snapshots": "floppy"}, "snapshots must be one of content, reflink, overlay, btrfs, zfs (got 'floppy')"),
        ({"keep": -1}, "keep must not be negative (got -1); 0 keeps the snapshots of all steps"),
    ],
)
def test_wrong_options_are_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as told:
        Cow(**options)
    assert str(told.value) == message
