"""A clock of the agent's own, moved from outside: seen by running programs, by children, and by nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos import clock, leftovers
from chaos.clock import Clock
from chaos.events.done import ClockMoved, ClockRead
from chaos.journal import Journal
from chaos.targets.reference.shell import Shell
from chaos.targets.reference.tools import INHERITED

pytestmark = pytest.mark.skipif(bool(clock.missing()), reason=clock.missing())

HOUR = 3600


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Clock]:
    one = Clock(tmp_path / "clock")
    yield one
    one.close()


def off(line: str) -> float:
    return float(line) - time.time()


def test_a_running_program_sees_it_move_and_so_does_its_child(made: Clock, tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, time\n"
        "for line in sys.stdin:\n"
        "    print(time.time(), time.monotonic(), subprocess.check_output(['date', '+%s.%N'], text=True), flush=True)"
    )
    env = made.environment({"PATH": os.environ["PATH"]})
    with subprocess.Popen(
        [sys.executable, "-S", "-c", program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin and running.stdout
        for seconds, total in ((0, 0), (-HOUR, -HOUR), (25 * HOUR, 24 * HOUR)):
            if seconds:
                made.move(seconds)
            running.stdin.write("now\n")
            running.stdin.flush()
            wall, monotonic, child = running.stdout.readline().split()
            assert off(wall) == pytest.approx(total, abs=20)
            assert off(child) == pytest.approx(total, abs=20)
            assert float(monotonic) == pytest.approx(time.monotonic(), abs=20)
            running.stdout.readline()
        running.stdin.close()
    (tmp_path / "now").touch()  # by the kernel's clock
    assert time.time() == pytest.approx((tmp_path / "now").stat().st_mtime, abs=20)  # ours stays as it is


def test_the_reference_agent_s_shell_has_it_too(made: Clock, tmp_path: Path) -> None:
    env = made.environment({"PATH": os.environ["PATH"]})
    shell = Shell(tmp_path, {name: env[name] for name in INHERITED if name in env})
    made.move(HOUR)
    status, said = shell.run("date +%s.%N")
    shell.close()
    assert (status, off(said)) == (0, pytest.approx(HOUR, abs=20))


def test_it_tells_once_that_somebody_looked(made: Clock, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    env = made.environment({})
    look = [sys.executable, "-I", "-S", "-c", "import time; time.time()"]
    subprocess.run(look, env=env, check=True)
    made.tell(journal)
    assert journal.events == []  # it has not moved
    made.jump(journal, HOUR)
    made.tell(journal)
    assert [type(event) for event in journal.events] == [ClockMoved]  # the helper does not count
    for _ in range(2):
        subprocess.run(look, env=env, check=True)
        made.tell(journal)
    assert [type(event) for event in journal.events] == [ClockMoved, ClockRead]
    moved = journal.events[0]
    assert isinstance(moved, ClockMoved)
    assert moved.after_seconds - moved.before_seconds == pytest.approx(HOUR, abs=1)
    journal.close()


def test_what_is_preloaded_already_stays(made: Clock) -> None:
    library, _, rest = made.environment({"LD_PRELOAD": "libother.so"})["LD_PRELOAD"].partition(":")
    assert rest == "libother.so"
    assert Path(library).name == "libfaketimeMT.so.1"


def test_nothing_is_left_of_it(tmp_path: Path) -> None:
    def ours() -> set[str]:
        return {name for name in os.listdir(clock.SHARED) if f"{leftovers.PREFIX}{os.getpid()}-" in name}

    one = Clock(tmp_path / "clock")
    for _ in range(2):
        one.environment({})
    assert len(ours()) == 4
    one.close()
    one.close()
    assert ours() == set()


def test_what_a_killed_harness_left_goes_with_the_next(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom chaos.clock import Clock\n"
        "Clock(Path(sys.argv[1])).environment({})\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.Popen([sys.executable, "-c", program, tmp_path / "first"])
    killed.wait()

    def left() -> list[str]:
        return [name for name in os.listdir(clock.SHARED) if f"{leftovers.PREFIX}{killed.pid}-" in name]

    assert len(left()) == 2
    Clock(tmp_path / "second").close()
    assert left() == []
    leftovers.sweep()  # its copy of the library
