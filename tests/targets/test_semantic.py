"""Semantic snapshots: what is decided, what is missed (nothing), and what comes back after real kills and evictions."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.errors import HarnessError, ScenarioError
from chaos.faults import Scene
from chaos.faults.corrupt_delta import CorruptDelta
from chaos.faults.kill import Kill
from chaos.sandbox.processes import descendants
from chaos.targets.reference import Reference
from chaos.targets.reference.semantic import criu
from chaos.targets.reference.semantic.audit import everything
from chaos.targets.reference.semantic.inspector import Process, Sight, decide
from chaos.targets.reference.semantic.processes import Sighting, alive, find, memory
from chaos.targets.reference.snapshot import Entry, Snapshots
from chaos.targets.reference.workloads.script import beats
from tests.cells import ReferenceCell
from tests.waiting import until

STEPS = 14
BEATS = beats(STEPS)
MAIL, QUERY = BEATS.index("kickoff_mail"), BEATS.index("total")  # no idempotency key; the engine runs
PHASES = ("before_think", "before_act", "after_act", "during_commit", "after_commit")
QUIET_SHARE = (0.65, 0.85)  # of turns that change nothing, as the workload has them and as others were measured

needs_criu = pytest.mark.skipif(bool(criu.trouble(criu.named())), reason=criu.trouble(criu.named()) or "-")


# -- the decision, pure

entries = st.fixed_dictionaries(
    {"kind": st.sampled_from(["file", "dir", "link"]), "mode": st.sampled_from([0o644, 0o755]),
     "mtime_ns": st.integers(0, 2)},
    optional={"digest": st.sampled_from("ab")},
)  # fmt: skip
processes = st.builds(
    Process, st.tuples(st.sampled_from("xy")), st.just("/"), st.just(()), st.tuples(st.integers(1, 2)),
    st.integers(1, 2), st.sampled_from("mn"),
)  # fmt: skip
sights = st.builds(
    Sight, st.dictionaries(st.sampled_from(["w/a", "w/b"]), entries), st.lists(processes, max_size=2).map(tuple)
)


@given(sights, st.booleans())
def test_what_did_not_change_is_skipped(sight: Sight, memory: bool) -> None:
    again = Sight(dict(reversed(sight.files.items())), tuple(reversed(sight.processes)))
    assert decide(sight, again, memory=memory).skip


@given(sights, sights, st.booleans())
def test_a_decision_is_the_same_both_ways_and_about_what_differs(one: Sight, other: Sight, memory: bool) -> None:
    decision = decide(one, other, memory=memory)
    assert decision == decide(other, one, memory=memory)
    assert decision.files == (facts(one) != facts(other))
    known = [
        Counter((p.argv, p.ports, *((p.pid, p.memory) if memory else ())) for p in s.processes) for s in (one, other)
    ]
    assert decision.processes == (known[0] != known[1])


def facts(sight: Sight) -> set[tuple[object, ...]]:
    """Return what of the files must not get lost: all but the times of folders."""
    return {
        (path, e["kind"], e["mode"], e.get("digest"), e["mtime_ns"] if e["kind"] != "dir" else None)
        for path, e in sight.files.items()
    }


@given(sights, st.integers(0, 1))
def test_memory_counts_only_where_it_is_stored(sight: Sight, which: int) -> None:
    if which >= len(sight.processes):
        return
    ran = replace(sight.processes[which], memory="other")
    others = [process for index, process in enumerate(sight.processes) if index != which]
    now = Sight(sight.files, (ran, *others))
    assert decide(sight, now, memory=True) == (False, True)
    assert decide(sight, now, memory=False).skip


# -- the inspector on a real folder, against a full diff

names = st.sampled_from(["a", "b", "d/a", "d"])
changes = st.tuples(
    st.sampled_from(["write", "append", "remove", "mkdir", "chmod", "touch", "link", "swap", "temporary", "nothing"]),
    names, st.sampled_from([b"1", b"2"]),
)  # fmt: skip


def change(folder: Path, how: str, name: str, content: bytes) -> None:
    """Change *folder*, as fast as a program can: within one tick of the clock that stamps files."""
    path = folder / name
    try:
        if how == "write":
            path.write_bytes(content)
        elif how == "append":
            path.open("ab").write(content)
        elif how == "remove":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        elif how == "mkdir":
            path.mkdir()
        elif how == "chmod":
            path.chmod(0o700 if path.stat().st_mode & 0o077 else 0o755)
        elif how == "touch":
            os.utime(path, ns=(1, 1))
        elif how == "link":
            path.symlink_to(content.decode())
        elif how == "swap":  # same size, same times, another content
            about = path.stat()
            path.write_bytes(path.read_bytes().translate(bytes.maketrans(b"12", b"21")))
            os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
        elif how == "temporary":
            path.with_name("temporary").write_bytes(content)
            path.with_name("temporary").unlink()
    except OSError:  # no such file, or not for a folder
        return


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(changes, max_size=3), min_size=1, max_size=6))
def test_nothing_is_missed_and_nothing_is_stored_in_vain(turns: list[list[tuple[str, str, bytes]]]) -> None:
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top, "workspace")
        folder.mkdir()
        folders = {"workspace": folder}
        snapshots = Snapshots(Path(top, "objects"), folders)
        before: dict[str, Entry] = {}
        full = everything(folders)
        for turn in turns:
            for each in turn:
                change(folder, *each)
            now, now_full = snapshots.take(), everything(folders)
            said = decide(Sight(before, ()), Sight(now, ()), memory=True)
            assert said.files == (now_full != full)
            before, full = now, now_full


# -- processes as the kernel shows them

REMEMBERS = """
import sys
kept = bytearray(1)
for line in sys.stdin:
    kept[0] = int(line)
    print(flush=True)
"""


@contextmanager
def program(code: str) -> Iterator[tuple[subprocess.Popen[str], Callable[[int], None]]]:
    """Run *code*; the second value has it take in a number."""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(number: int) -> None:
        assert process.stdin and process.stdout
        process.stdin.write(f"{number}\n")
        process.stdin.flush()
        process.stdout.readline()

    with process:
        tell(0)
        yield process, tell
        process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="other processes' memory is root's to read")
def test_memory_that_changed_is_seen() -> None:
    with program(REMEMBERS) as (process, tell):
        for number in (1, 2):
            tell(number)
        before = memory(process.pid)
        tell(3)
        assert memory(process.pid) != before


def test_what_hangs_on_the_agent_by_its_input_is_part_of_it() -> None:
    parent = "from subprocess import *\nstarted = [Popen(['sleep', '60'], stdin=each) for each in (PIPE, DEVNULL)]\n"
    with program(parent + REMEMBERS) as (process, _):
        until(lambda: len([pid for pid in descendants(process.pid) if alive(pid)]) == 2)  # exec'd, both of them
        (found,) = find(process.pid)
        (attached,) = descendants(process.pid) - {found}
        (seen,) = Sighting(memory=False).look(process.pid)
        assert seen.argv == ("sleep", "60") and seen.pid == 0 and seen.memory == ""
        for pid in (found, attached):
            os.kill(pid, signal.SIGKILL)


# -- options


def test_wrong_options_and_a_missing_program_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ScenarioError, match="processes must be auto, criu or manifest"):
        Reference().strategy("semantic", {"processes": "all"})
    monkeypatch.setenv(criu.VARIABLE, "/nonexistent/criu")
    assert Reference().strategy("semantic", {"processes": "auto"}).missing() == ""
    if os.geteuid() == 0:
        assert ".ci/criu" in Reference().strategy("semantic", {"processes": "criu"}).missing()


# -- real runs


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> ReferenceCell:
    """A sandbox whose processes are recorded, every decision judged."""
    faults = {"kill": Kill(), **{how: CorruptDelta(how=how, which="first") for how in ("flip", "delete", "duplicate")}}  # type: ignore[arg-type]
    made = ReferenceCell(
        tmp_path_factory.mktemp("semantic"), Reference(steps=STEPS), "semantic",
        {"processes": "manifest", "audit": True},
    )  # fmt: skip
    return replace(
        made, faults={**made.faults, **faults, "latest": CorruptDelta(which="latest"), "objects": LoseObjects()}
    )


def test_most_turns_are_skipped_and_none_wrongly(tmp_path: Path) -> None:
    steps = 40
    options = {"processes": "manifest", "audit": True}
    cell = ReferenceCell(tmp_path, Reference(steps=steps), "semantic", options)
    assert not cell.whole.broken()
    (turns,) = cell.whole.told("turns")
    assert turns["turns"] == steps
    assert turns["false_negatives"] == turns["false_positives"] == 0
    assert QUIET_SHARE[0] < float(str(turns["skip"])) / steps < QUIET_SHARE[1]


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(("fault", "step"), [("kill", MAIL), ("evict", QUERY)])
def test_every_phase(cell: ReferenceCell, fault: str, step: int, phase: str) -> None:
    ran = cell.run(f"{fault}@{step}/{phase}")
    lost = phase not in ("before_think", "before_act")
    mailed_twice = step == MAIL and lost
    assert set(ran.broken()) == ({"effects"} if mailed_twice else set())
    assert ran.rpo == (0 if phase == "before_act" else 1)
    (turns,) = ran.told("turns")
    assert turns["false_negatives"] == 0
    (restored,) = ran.told("restore")
    assert restored["turns"] == (step - 1 if phase == "before_think" else step)
    if step == QUERY and restored["processes"]:
        assert [told["how"] for told in ran.told("processes")] == ["respawned"]


def test_a_kill_before_the_first_manifest_begins_anew(cell: ReferenceCell) -> None:
    ran = cell.run("kill@0/before_think")
    assert not ran.broken() and not ran.told("restore")


def test_recovery_is_broken_again(cell: ReferenceCell) -> None:
    ran = cell.run(f"evict@{QUERY}/after_act+kill@recovery/after_load+evict@recovery/{QUERY + 2}/during_commit")
    assert not ran.broken()
    assert [told["turns"] for told in ran.told("restore")] == [QUERY, QUERY, QUERY + 2]


@pytest.mark.parametrize("how", ["flip", "delete", "duplicate"])
def test_a_damaged_log_is_refused(cell: ReferenceCell, how: str) -> None:
    ran = cell.run(f"{how}@{QUERY}/after_act")
    assert ran.record.ended == "gave up" and "corruption" not in ran.broken()
    assert "CorruptStore" in ran.record.exits[-1].log


def test_damage_beyond_the_manifest_is_cut_off(cell: ReferenceCell) -> None:
    assert not cell.run(f"latest@{QUERY}/after_commit").broken()


@dataclass(frozen=True)
class LoseObjects(Kill):
    """The agent is killed, and the stored contents of its files are damaged."""

    def inject(self, scene: Scene) -> None:
        super().inject(scene)
        for place in (scene.durable.folder / "semantic/objects").iterdir():
            place.write_bytes(b"damaged")
        scene.sandbox.wipe()


def test_damaged_contents_are_refused(cell: ReferenceCell) -> None:
    ran = cell.run(f"objects@{QUERY}/after_act")
    assert ran.record.ended == "gave up"
    assert "CorruptStore" in ran.record.exits[-1].log and ran.told("refused")


# -- memory that only the process had


def live(folder: Path, mode: str) -> ReferenceCell:
    """Return a cell whose engine has removed the table that it answers from."""
    target = Reference(workload="live_engine", steps=STEPS)
    return ReferenceCell(folder, target, "semantic", {"processes": mode, "audit": True})


@needs_criu
def test_memory_comes_back_by_criu(tmp_path: Path) -> None:
    cell = live(tmp_path, "criu")
    for plan in (f"evict@{QUERY}/after_act", f"kill@{QUERY}/before_act+evict@recovery/{QUERY + 3}/before_act"):
        ran = cell.run(plan)
        assert not ran.broken()
        assert {told["how"] for told in ran.told("processes")} == {"restored"}
        (turns,) = ran.told("turns")
        assert turns["false_negatives"] == 0


def test_memory_is_lost_where_processes_are_only_started_again(tmp_path: Path) -> None:
    ran = live(tmp_path, "manifest").run(f"evict@{QUERY}/after_act")
    assert "processes" in ran.broken() and "state" in ran.broken()
    (told,) = ran.told("processes")
    assert (told["how"], told["missing"]) == ("respawned", 1)


@dataclass(frozen=True)
class LoseImages(Kill):
    """The agent is killed, and the dumped memory is damaged."""

    def inject(self, scene: Scene) -> None:
        super().inject(scene)
        for place in (scene.durable.folder / "semantic/images").rglob("core-*.img"):
            place.write_bytes(b"")


@needs_criu
def test_a_restore_that_fails_is_told_and_the_agent_starts_the_process_again(tmp_path: Path) -> None:
    made = ReferenceCell(tmp_path, Reference(steps=STEPS), "semantic", {"processes": "auto"})
    ran = replace(made, faults={"lose": LoseImages()}).run(f"lose@{QUERY}/after_act")
    assert not ran.broken()
    told = ran.told("processes")[0]
    assert told["how"] == "respawned" and told["missing"] == 0 and told["why"]


@needs_criu
def test_where_criu_is_demanded_a_restore_that_fails_is_no_result(tmp_path: Path) -> None:
    made = ReferenceCell(tmp_path, Reference(steps=STEPS), "semantic", {"processes": "criu"})
    with pytest.raises(HarnessError, match="CRIU did not bring the processes back"):
        replace(made, faults={"lose": LoseImages()}).run(f"lose@{QUERY}/after_act")
