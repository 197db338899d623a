"""System calls as points, in any language: the n-th write, fsync or rename below the durable zone."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from chaos.campaign import Runner
from chaos.events.seen import Called
from chaos.explorers.syscall import Syscall
from chaos.faults.evict import Evict
from chaos.faults.kill import Kill
from chaos.faults.power_loss import PowerLoss
from chaos.sandbox import disk, syscalls
from chaos.sandbox.process import ProcessSandbox, able
from chaos.targets import Launch, Strategy
from chaos.targets.reference import Reference
from chaos.verdict import CellVerdict
from tests import toy
from tests.cells import SEED, ReferenceCell
from tests.toy import Toy

pytestmark = pytest.mark.skipif(bool(syscalls.missing()), reason=syscalls.missing())

needs_perl = pytest.mark.skipif(not shutil.which("perl"), reason="no perl on the PATH")

# Each counts to five in a file that it replaces, and notes what it found when it came up.
SHELL = """
cd "$CHAOS_DURABLE"; n=$(cat count 2>/dev/null || echo 0); echo "$n" >> seen
while [ "$n" -lt 5 ]; do n=$((n+1)); echo "$n" > count.new; sync count.new; perl -e 'rename "count.new", "count"'; done
"""  # not mv: it may try renameat2 first, and rename again
NODE = """
const fs = require('fs').promises; process.chdir(process.env.CHAOS_DURABLE);
(async () => {
    let n = 0;
    try { n = Number(await fs.readFile('count', 'utf8')); } catch (error) {}
    await fs.appendFile('seen', `${n}\\n`);
    for (n++; n <= 5; n++) {
        const file = await fs.open('count.new', 'w');
        await file.write(`${n}`); await file.sync(); await file.close();
        await fs.rename('count.new', 'count');
    }
})();
"""
C = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int n;
static void *step(void *unused) {  /* a thread of its own for each */
    FILE *file = fopen("count.new", "w");
    fprintf(file, "%d", n); fflush(file); fdatasync(fileno(file)); fclose(file);
    rename("count.new", "count");
    return unused;
}
int main(void) {
    FILE *file;
    chdir(getenv("CHAOS_DURABLE"));
    if ((file = fopen("count", "r"))) { fscanf(file, "%d", &n); fclose(file); }
    file = fopen("seen", "a"); fprintf(file, "%d\n", n); fclose(file);
    for (n++; n <= 5; n++) { pthread_t thread; pthread_create(&thread, 0, step, 0); pthread_join(thread, 0); }
    return 0;
}
"""
READS = """
import json
def read(name):
    return (toy.DURABLE / name).read_text().split() if (toy.DURABLE / name).exists() else []
print(json.dumps({"seen": read("seen"), "count": read("count")}))
"""


@dataclass(frozen=True)
class Foreign(Toy):
    """A program that knows nothing of us."""

    command: tuple[str, ...] = ("true",)
    reads: str = READS
    env: tuple[tuple[str, str], ...] = field(default=())

    def launch(self, strategy: Strategy, seed: int, root: Path) -> Launch:
        return Launch(self.command, dict(self.env))


@pytest.fixture(scope="module", params=["shell", "node", "c"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The same program in three languages, which really are three: processes, a pool of threads, threads."""
    needs = {"shell": "perl", "node": "node", "c": "cc"}[request.param]
    if not shutil.which(needs):
        pytest.skip(f"no {needs} on the PATH")
    if request.param == "shell":
        return ("sh", "-c", SHELL)
    if request.param == "node":
        return ("node", "-e", NODE)
    folder = tmp_path_factory.mktemp("c")
    (folder / "count.c").write_text(C)
    subprocess.run(["cc", "-pthread", "-w", "-o", "count", "count.c"], cwd=folder, check=True)
    return (str(folder / "count"),)


def run(folder: Path, program: tuple[str, ...], plan: str, **faults: Any) -> tuple[toy.Ran, dict[str, Any]]:
    """Run *program* under *plan*; return also what stands in its files in the end."""
    ran = toy.execute_plan(folder, toy.setup(Foreign(command=program), faults or {"kill": Kill()}), plan)
    state = ran.record.reloaded_state
    assert isinstance(state, dict), ran.record.reloaded
    return ran, state


def calls(ran: toy.Ran, attempt: int = 1) -> list[str]:
    return [f"{c.number} {c.path}" for c in ran.all(Called) if c.attempt == attempt]


@pytest.mark.parametrize("phase", ["write", "fsync", "rename"])
def test_the_third_call_is_never_made(tmp_path: Path, program: tuple[str, ...], phase: str) -> None:
    # Of the writes the first one says what was seen.
    plan = {"write": "kill@4/write", "fsync": "kill@3/fsync", "rename": "kill@3/rename"}[phase]
    ran, files = run(tmp_path, program, plan)
    assert ran.statuses == [-signal.SIGKILL, 0]
    assert files == {"seen": ["0", "2"], "count": ["5"]}
    (landed,) = ran.landed
    assert (landed.at, landed.how) == (plan.removeprefix("kill@"), "killed")
    last = [c for c in ran.all(Called) if c.attempt == 1][-1]
    assert (last.phase, f"{last.number}/{last.phase}") == (phase, landed.at)
    assert last.path == ("durable/count.new -> durable/count" if phase == "rename" else "durable/count.new")


@needs_perl
def test_they_are_counted_over_all_processes_and_from_1_in_each_incarnation(tmp_path: Path) -> None:
    ran, files = run(tmp_path, ("sh", "-c", SHELL), "kill@3/rename+kill@recovery/2/rename")
    assert ran.statuses == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert files["seen"] == ["0", "2", "3"]
    moved = "durable/count.new -> durable/count"
    assert calls(ran) == [f"{n} {moved}" for n in (1, 2, 3)]
    assert calls(ran, attempt=2) == [f"{n} {moved}" for n in (1, 2)]
    assert len({call.pid for call in ran.all(Called)}) == 3 + 2 + 2  # each perl is a process


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace on the PATH")
def test_strace_says_the_same_where_it_can_count(tmp_path: Path) -> None:
    """Its own injection is exact for a single thread: it must leave the same files behind."""
    code = """
import os
os.chdir(os.environ["CHAOS_DURABLE"])
with open("seen", "a") as seen:
    seen.write(" ".join(sorted(os.listdir())) + "\\n")
for n in range(5):
    file = os.open(f"{n}.new", os.O_WRONLY | os.O_CREAT)
    os.write(file, b"x"); os.fsync(file); os.close(file)
    os.rename(f"{n}.new", f"{n}")
"""
    python = (sys.executable, "-S", "-c", code)
    for number, (call, phase) in enumerate([("fsync", "fsync"), ("rename", "rename"), ("write", "write")]):
        folder = tmp_path / f"strace-{number}"
        folder.mkdir()
        inject = f"inject={call}:signal=SIGKILL:when=3"
        traced = ["strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={call}", "-e", inject, *python]
        done = subprocess.run(traced, env={**os.environ, "CHAOS_DURABLE": str(folder)}, check=False)
        assert done.returncode == -signal.SIGKILL
        _, files = run(tmp_path / phase, python, f"kill@3/{phase}")
        found = files["seen"][1:]
        assert found == sorted(os.listdir(folder)), phase


@needs_perl
@pytest.mark.skipif(bool(disk.missing("ext4")), reason=disk.missing("ext4"))
def test_without_power_the_call_before_counts_and_this_one_does_not(tmp_path: Path) -> None:
    code = SHELL.replace("; done", "; sync .; done")  # the name is synced as well
    ran, files = run(tmp_path, ("sh", "-c", code), "power_loss@5/fsync", power_loss=PowerLoss())
    assert files == {"seen": ["2"], "count": ["5"]}  # the line that said 0 was synced by nobody
    assert len(ran.landed) == 1


def test_signals_do_not_make_a_call_come_twice(tmp_path: Path) -> None:
    """While one is held, a handled signal comes every millisecond."""
    code = """
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
file = os.open(toy.DURABLE / "a", os.O_WRONLY | os.O_CREAT)
for _ in range(200):
    os.write(file, b"x")
signal.setitimer(signal.ITIMER_REAL, 0)
say(os.fstat(file).st_size)
work()
"""
    ran = toy.run(tmp_path, code, "kill@1000/write", {"kill": Kill()})
    assert ran.told == ["200"]
    assert [call.number for call in ran.all(Called) if call.path == "durable/a"] == list(range(1, 201))


def test_an_eviction_leaves_the_call_held_while_the_grace_runs(tmp_path: Path) -> None:
    if reason := able().hostname:
        pytest.skip(reason)
    code = """
def leave(*_):
    os.fsync(os.open(toy.DURABLE, os.O_RDONLY))
    os._exit(3)
signal.signal(signal.SIGTERM, leave)
file = os.open(toy.DURABLE / "a", os.O_WRONLY | os.O_CREAT)
os.write(file, b"x")
work()
"""
    ran = toy.run(tmp_path, code, "evict@1/write", {"evict": Evict(grace=0.3)})
    # The handler of the thread that is held cannot run: it is killed after the grace, as in any uninterruptible call.
    assert ran.statuses == [-signal.SIGKILL, 0]
    assert len(ran.landed) == 1


@pytest.mark.parametrize("namespaces", [True, False])
def test_a_program_that_is_not_there_is_an_error_as_ever(tmp_path: Path, namespaces: bool) -> None:
    from chaos.errors import HarnessError
    from chaos.journal import Journal

    sandbox = ProcessSandbox(tmp_path / "sandbox", 0, "host-1", namespaces=namespaces)
    journal = Journal(tmp_path / "journal.jsonl")
    held = syscalls.Calls(sandbox.zones.durable, ["write"], journal)
    try:
        sandbox.hold(held)
        with pytest.raises(HarnessError, match=r"cannot start 'nosuch'.*No such file"):
            sandbox.start(["nosuch"], {"PATH": os.defpath})
    finally:
        held.close()
        sandbox.close()
        journal.close()


def test_the_number_of_a_call_that_is_never_made_proves_nothing(tmp_path: Path) -> None:
    result, cell = toy.replay(tmp_path, Kill(), "kill@99/write")
    assert (result.landed, result.verdict, cell.passed) == ((), CellVerdict.NOT_EXERCISED, False)
    assert result.missed == ("the agent never came to kill@99/write",)


def test_a_cell_hits_every_call_that_its_reference_made(tmp_path: Path) -> None:
    made = toy.scenario(toy.spec(Kill(), Syscall("write", every=True)))
    with closing(Runner(tmp_path, "campaign", SEED)) as runner:
        cell = runner.run_cell(toy.cells(made)[0])
    assert (cell.verdict, cell.landed, cell.passed) == (CellVerdict.RECOVERED, toy.STEPS, True)
    assert [result.plan for result in toy.runs(tmp_path)] == [f"kill@{n}/write" for n in (1, 2, 3)]


def test_where_two_references_make_other_calls_nothing_is_judged(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.touch()
    code = f"""
with open({str(counter)!r}, "a+") as counter:
    counter.write("x"); counter.flush(); counter.seek(0)
    for _ in counter.read():
        os.fsync(os.open(toy.DURABLE, os.O_RDONLY))
work()
"""
    made = toy.scenario(toy.spec(Kill(), Syscall("fsync")), target=Toy(code))
    with closing(Runner(tmp_path / "results", "campaign", SEED)) as runner:
        cell = runner.run_cell(toy.cells(made)[0])
    assert (cell.verdict, cell.passed) == (CellVerdict.UNKNOWN, False)
    assert (
        "two crash-free runs make other system calls (fsync 2: none in one, fsync on durable in the other)" in cell.why
    )


def test_sqlite_is_never_wrong_whichever_sync_it_dies_before(tmp_path: Path) -> None:
    cell = ReferenceCell(tmp_path, Reference(steps=16), "full_snapshot", faults={"kill": Kill()})
    if reason := cell.setup.strategy.missing():
        pytest.skip(reason)
    for number in (2, 30, 31):
        ran = cell.run(f"kill@{number}/fsync")
        assert ran.record.crashes[0].status == -signal.SIGKILL
        assert ran.broken().keys() <= {"effects"}, number  # an e-mail without a key may go twice


def test_a_machine_that_cannot_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syscalls.platform, "machine", lambda: "riscv64")
    assert "no table of system calls for riscv64" in syscalls.missing()
    monkeypatch.undo()
    monkeypatch.setattr(syscalls.ctypes, "get_errno", lambda: errno.EINVAL)
    assert "needs Linux 5.19" in syscalls.missing()
