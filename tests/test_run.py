"""The supervisor with real processes: restarts, limits, hostile agents, and nothing left behind."""

from __future__ import annotations

import ast
import os
import pydoc
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from chaos import journal, reading
from chaos.errors import HarnessError
from chaos.events import Event
from chaos.events.done import Injecting
from chaos.events.seen import Ended, Exited, Measured, Observed, Reached, Reloaded, Started
from chaos.faults import Scene
from chaos.faults.evict import Evict
from chaos.faults.kill import Kill
from chaos.leftovers import PREFIX, sweep
from chaos.plan import Plan, parse_plan
from chaos.rig import THREAD_ID
from chaos.run import execute
from chaos.sandbox import hierarchy
from chaos.world import Message, Reply
from tests import toy
from tests.waiting import PATIENCE, until

FAILS_ONCE = "first = toy.DURABLE / 'first'\nif not first.exists():\n first.touch()\n sys.exit(1)\n"
SEGFAULT = "import ctypes\n ctypes.string_at(0)"
LINE = b'{"point": "before_act", "step": 1}'


def processes(mark: str) -> list[str]:
    """Return the processes that have *mark* in their environment: every agent of a sandbox below that folder."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark.encode() in Path(f"/proc/{name}/environ").read_bytes():
                found.append(name)
        except OSError:
            continue
    return found


def cgroups() -> list[Path]:
    parent = hierarchy.find_parent()
    return [path for top in (parent.memory, parent.pids) if top for path in top.glob(f"chaos-*-{os.getpid()}-*")]


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is opened once and kept is no leak."""
    toy.run(tmp_path_factory.mktemp("warm"), "sys.exit(0)")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary folders; whatever a test does, its runs must leave nothing behind."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    threads, files = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
    yield folder
    until(lambda: set(threading.enumerate()) <= threads, f"threads end: {threading.enumerate()}")
    until(lambda: len(os.listdir("/proc/self/fd")) <= files, "files are closed")
    assert list(folder.iterdir()) == []
    assert cgroups() == []
    assert processes(str(folder)) == []


# -- restarts, as a Kubernetes Job has them


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_failures_are_restarted_up_to_the_backoff_limit(tmp_path: Path, limit: int) -> None:
    ran = toy.run(tmp_path, "sys.exit(3)", backoff_limit=limit)
    assert ran.statuses == [3] * (1 + limit)
    assert ran.record.ended == "gave up"
    assert [event.attempt for event in ran.all(Started)] == list(range(1, limit + 2))


@pytest.mark.parametrize(("code", "status"), [("os._exit(7)", 7), ("1/0", 1), (SEGFAULT, -signal.SIGSEGV)])
def test_any_status_but_zero_is_a_failure(tmp_path: Path, code: str, status: int) -> None:
    ran = toy.run(tmp_path, FAILS_ONCE.replace("sys.exit(1)", code) + "sys.exit(0)")
    assert ran.statuses == [status, 0]
    assert ran.record.ended == "finished"


def test_status_zero_ends_the_run_whatever_was_done(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, "begin(); sys.exit(0)")
    assert ran.statuses == [0]
    assert ran.record.ended == "finished"
    assert not ran.reached("finished")  # that it did not do its work is for the checks to say


def test_the_last_words_of_a_failure_are_kept(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, FAILS_ONCE.replace("sys.exit(1)", "raise KeyError('left')") + "print('unheard')")
    assert ran.all(Exited)[0].log.endswith("KeyError: 'left'")
    assert ran.all(Exited)[1].log == ""


def test_every_incarnation_has_the_same_thread_id(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, "say(os.environ['THREAD_ID']); sys.exit(1)", backoff_limit=2)
    assert ran.told == [THREAD_ID] * 3
    assert {event.thread_id for event in ran.all(Started)} == {THREAD_ID}


def test_the_delay_before_a_restart_doubles(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, "sys.exit(1)", backoff_limit=3, backoff_seconds=0.04)
    ends, starts = [event.at for event in ran.all(Exited)], [event.at for event in ran.all(Started)]
    delays = [start - end for end, start in zip(ends[:-1], starts[1:], strict=True)]
    assert all(delay >= 0.04 * 2**number for number, delay in enumerate(delays))


def test_the_durable_zone_goes_from_one_incarnation_to_the_next(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, plan="kill@1/after_commit", faults={"kill": Kill()})
    assert ran.reached("after_load") == [0, 2]
    assert ran.reached("before_think") == [0, 1, 2]


# -- the journal


def test_the_journal_on_disk_is_what_is_returned(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, plan="kill@1/after_act", faults={"kill": Kill()})
    assert journal.read(ran.journal) == ran.record.events
    times = [event.at for event in ran.record.events]
    assert times == sorted(times)


def test_a_run_is_told_from_start_to_end(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, plan="kill@1/before_act", faults={"kill": Kill()}, steps=2)
    told = [event.phase if isinstance(event, Reached) else type(event).__name__ for event in ran.record.events]
    assert told == [
        *("Started", "before_load", "after_load"),
        *("before_think", "Asked", "before_act", "after_act", "after_commit"),
        *("before_think", "Asked", "before_act", "Injecting", "Signalled", "Exited"),
        *("Started", "before_load", "after_load", "Observed"),
        *("before_think", "Asked", "before_act", "Effected", "after_act", "after_commit"),
        *("finished", "Observed", "Exited", "Ended", "Reloaded", "Measured"),
    ]


def test_it_is_observed_when_it_comes_back_and_when_it_is_done(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, plan="kill@1/after_commit", faults={"kill": Kill()})
    back, done = ran.all(Observed)
    assert (back.attempt, back.phase, back.step) == (2, "after_load", 2)
    assert (done.attempt, done.phase, done.step) == (2, "finished", 3)
    assert [entry.path for entry in back.seen.files] == ["workspace/0.txt", "workspace/1.txt"]
    assert [entry.path for entry in done.seen.files] == [f"workspace/{number}.txt" for number in range(3)]


HARNESS = """
import random, sys
from pathlib import Path
from chaos.plan import Plan
from chaos.run import execute
from tests import toy

class Brain(toy.CountingBrain):
    def reply(self, messages):
        if len(messages) > 1:
            print("mid-run", flush=True)
            sys.stdin.read()
        return super().reply(messages)

class Target(toy.Toy):
    def brain(self, seed):
        return Brain()

execute(toy.setup(Target()), Plan(), Path(sys.argv[1]), random.Random(0))
"""


def test_the_journal_of_a_killed_harness_can_be_read(tmp_path: Path, temporary: Path) -> None:
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path[1:]]),
        "TMPDIR": str(temporary),
    }
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, tmp_path], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"mid-run\n"  # the agent waits for its second answer
        harness.kill()
    with open(tmp_path / "journal.jsonl", "ab") as file:
        file.write(b'{"event": "reach')  # and a kill in the middle of a write
    events = journal.read(tmp_path / "journal.jsonl")
    assert toy.kinds(events)[0] == "Started"
    last = events[-1]
    assert isinstance(last, Reached)
    assert (last.step, last.phase) == (1, "before_think")
    until(lambda: not processes(str(temporary)), "the agent died with its harness")
    assert len(list(temporary.iterdir())) == 1  # only the folder is left,
    sweep()
    assert list(temporary.iterdir()) == []  # until the next campaign begins


# -- limits


@pytest.mark.parametrize("code", ["say('here'); time.sleep(1000)", "time.sleep(1000)"], ids=["announced", "silent"])
def test_an_agent_that_hangs_is_stopped_at_the_deadline(tmp_path: Path, code: str) -> None:
    ran = toy.run(tmp_path, code, deadline_seconds=0.4)
    assert ran.statuses == [-signal.SIGKILL]
    assert ran.record.ended == "deadline"
    assert 0.4 <= ran.all(Ended)[0].at < PATIENCE


def test_the_deadline_is_for_the_whole_run(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, "sys.exit(1)", deadline_seconds=1.0, backoff_limit=1000)
    assert ran.record.ended == "deadline"
    assert 1 < ran.record.attempts < 1000


def test_an_agent_that_announces_without_end_is_stopped_too(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, "while True: point('before_act', 0)", deadline_seconds=0.4)
    assert ran.record.ended == "deadline"


# -- agents that do not behave


def test_an_agent_that_never_announces_ends_like_any_other(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, "ask([])")
    assert ran.statuses == [0]
    assert toy.kinds(ran.record.events) == ["Started", "Asked", "Observed", "Exited", "Ended", "Reloaded", "Measured"]
    assert ran.record.final_observation is not None, "what it left is looked at"


def test_a_flood_of_output_is_swallowed(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, "for _ in range(1600): os.write(1, bytes(1 << 16))\nprint('the end')\nsys.exit(1)",
                  backoff_limit=0)  # fmt: skip
    assert ran.statuses == [1]
    log = ran.all(Exited)[0].log
    assert log.endswith("the end")
    assert len(log) <= 1 << 16


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"hello\\n", r"it takes lines like \{\"point\": \"after_act\", \"step\": 17\}"),
        (b'{"point": "after_act", "step": "x"}\\n', "it takes lines like"),
        (b'{"point": "aftr_act", "step": 1}\\n', "the phases are before_think"),
        (b"\\xff\\xfe\\n", "it takes lines like"),
    ],
)
def test_garbage_at_the_gate_is_an_error_that_shows_the_right_form(tmp_path: Path, line: bytes, says: str) -> None:
    code = f"from chaos import probe\nprobe._connect().sendall(b'{line.decode()}')\ntime.sleep(1000)"
    with pytest.raises(HarnessError, match=says):
        toy.run(tmp_path, code)


def test_a_line_without_end_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.gate.MAX_LINE_BYTES", 1 << 20)
    with pytest.raises(HarnessError, match="a line of more than 1 MiB"):
        toy.run(tmp_path, "from chaos import probe\ngate = probe._connect()\nwhile True: gate.send(bytes(1 << 16))")


def test_a_daemon_does_not_outlive_the_agent(tmp_path: Path, temporary: Path) -> None:
    code = (
        "if os.fork() == 0:\n os.setsid()\n if os.fork() == 0: time.sleep(1000)\n os._exit(0)\n"
        "os.wait()\nsay(len(os.listdir('/proc')))\nsys.exit(0)"
    )
    ran = toy.run(tmp_path, code)
    assert ran.statuses == [0]
    assert processes(str(temporary)) == []


@pytest.mark.parametrize("status", [0, 5])
def test_an_agent_may_end_while_it_is_held(tmp_path: Path, status: int) -> None:
    code = f"from chaos import probe\nprobe._connect().sendall({LINE!r} + b'\\n')\nos._exit({status})"
    ran = toy.run(tmp_path, code, backoff_limit=0)
    assert ran.statuses == [status]
    assert ran.reached("before_act") == [1]


def test_an_agent_that_closes_the_gate_and_goes_on_is_waited_for(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, "from chaos import probe\nprobe._connect().close()\nprint('on its own')\nsys.exit(0)")
    assert ran.statuses == [0]


def test_a_child_that_ends_does_not_hold_up_its_parent(tmp_path: Path) -> None:
    code = "if os.fork() == 0: point('before_act', 50); os._exit(0)\nos.wait(); work()"
    began = time.monotonic()
    ran = toy.run(tmp_path, code)
    assert ran.statuses == [0]
    assert time.monotonic() - began < 4.0  # seconds; it takes 0.3


def test_one_death_is_not_two_faults(tmp_path: Path) -> None:
    """Two points are announced at once; the fault for the second one has to wait for the next incarnation."""
    lines = b'{"point": "before_think", "step": 90}\n{"point": "before_act", "step": 91}\n'
    code = f"from chaos import probe\ngate = probe._connect()\ngate.sendall({lines!r})\nanswers = gate.makefile()\n"
    code += "answers.readline(); answers.readline()"
    ran = toy.run(tmp_path, code, "kill@90/before_think+kill@91/before_act", {"kill": Kill()})
    assert ran.statuses == [-9, -9, 0]
    assert len(ran.landed) == 2


# -- what the agent can see


KNOWN = {
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "VIRTUAL_ENV", "HOME", "TMPDIR", "HOSTNAME", "THREAD_ID"),
    *("GIT_CEILING_DIRECTORIES", "CHAOS_DURABLE", "CHAOS_WORKSPACE", "CHAOS_TMP", "CHAOS_ASSETS", "CHAOS_GATE"),
    *("OPENAI_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "CHAOS_SERVICES_URL"),
    *("GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY", "GOOGLE_API_KEY"),
    *("TOY_PORT", "TOY_STEPS", "TOY_KEEPS", "PYTHONPATH"),
}


def test_nothing_of_the_user_leaks_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hush")
    monkeypatch.setenv("HOME", "/home/hush")
    reads = "import json; print(json.dumps(dict(os.environ)))"
    made = toy.setup(toy.Toy("say(dict(os.environ))", reads=reads))
    ran = toy.execute_plan(tmp_path, made, "no fault")
    agent = ast.literal_eval(ran.told[0])
    assert agent.keys() <= KNOWN
    assert "hush" not in str(agent)
    assert agent["HOME"] == agent["TMPDIR"] == agent["CHAOS_TMP"]
    reader = ran.record.reloaded_state
    assert isinstance(reader, dict)
    assert reader.keys() <= KNOWN
    assert "CHAOS_GATE" not in reader  # it must not announce anything
    assert "hush" not in str(reader)


def test_the_reader_does_not_run_in_the_user_s_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python looks for modules there first: the user's files would take the place of the agent's."""
    (tmp_path / "toy_agent.py").write_text("raise ImportError('of the user')")
    monkeypatch.chdir(tmp_path)
    ran = toy.run(tmp_path)
    assert ran.all(Reloaded)[0].error == ""


COMMITS = (
    "import subprocess\n"
    "who = ['-c', 'user.name=toy', '-c', 'user.email=toy@example.com']\n"
    "say(subprocess.run(['git', *who, 'commit', '--allow-empty', '-qm', 'stray']).returncode)\n"
)


@pytest.mark.parametrize("ceiling", [True, False])
def test_a_lost_repository_is_not_replaced_by_the_one_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ceiling: bool, temporary: Path
) -> None:
    """The campaign runs inside a repository. Without the ceiling the agent's commit would go there."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    code = COMMITS if ceiling else "del os.environ['GIT_CEILING_DIRECTORIES']\n" + COMMITS
    plan = "evict@0/before_act"
    ran = toy.run(tmp_path / "journal", f"point('before_act', 0)\n{code}", plan, {"evict": Evict(grace=0.0)})
    assert ran.told == (["128"] if ceiling else ["0"])  # git: not a repository
    strays = list((tmp_path / ".git/refs/heads").iterdir())
    assert bool(strays) is not ceiling


class Meeting(toy.CountingBrain):
    """Answers when all agents have asked: they are alive at the same time."""

    def __init__(self, parties: int) -> None:
        self.barrier = threading.Barrier(parties, timeout=PATIENCE)

    def reply(self, messages: Sequence[Message]) -> Reply:
        self.barrier.wait()
        return super().reply(messages)


def test_ports_are_free_and_parallel_runs_have_their_own(tmp_path: Path) -> None:
    code = (
        "listener = socket.socket(); listener.bind(('127.0.0.1', int(os.environ['TOY_PORT']))); listener.listen()\n"
        "ask([]); say(os.environ['TOY_PORT'])\n"
    )
    made = replace(toy.setup(toy.Toy(code)), brain=Meeting(3))
    with ThreadPoolExecutor(3) as pool:
        rans = list(pool.map(lambda n: toy.execute_plan(tmp_path / str(n), made, "no fault"), range(3)))
    assert [ran.statuses for ran in rans] == [[0]] * 3
    assert len({port for ran in rans for port in ran.told}) == 3


# -- the store, read by another process


def test_another_process_reads_the_state_back(tmp_path: Path) -> None:
    ran = toy.run(tmp_path)
    assert ran.record.reloaded_state == ran.record.final_state == {"answers": ["answer 0", "answer 1", "answer 2"]}
    assert ran.all(Measured)[0].stored_bytes == sum(len(f'"answer {n}"\n') for n in range(3))


def test_a_store_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    made = toy.setup(toy.Toy(reads="raise ValueError('bad checksum')"))
    ran = toy.execute_plan(tmp_path, made, "no fault")
    assert ran.all(Reloaded)[0].error == "ValueError: bad checksum"
    assert ran.record.reloaded_state is None


def test_a_reader_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "RELOAD_SECONDS", 0.3)
    ran = toy.execute_plan(tmp_path, toy.setup(toy.Toy(reads="time.sleep(1000)")), "no fault")
    assert ran.all(Reloaded)[0].error == "reading the store took more than 0.3 s"


def test_a_reader_that_prints_no_json_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="the reload command printed b'hello"):
        toy.execute_plan(tmp_path, toy.setup(toy.Toy(reads="print('hello')")), "no fault")


def test_a_strategy_that_is_not_durable_is_not_asked(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, strategy=toy.Forgets())
    assert not ran.all(Reloaded)


# -- when it raises, nothing is left either: the fixture `temporary` looks


@dataclass(frozen=True)
class Unprepared(toy.Toy):
    def prepare(self, assets: Path, seed: int) -> None:
        (assets / "half").touch()
        raise OSError("no space left")


@dataclass(frozen=True)
class Nowhere(toy.Toy):
    def launch(self, strategy: Any, seed: int, root: Path) -> Any:
        return replace(super().launch(strategy, seed, root), command=("no-such-program",))


class Speechless(toy.CountingBrain):
    def reply(self, messages: Sequence[Message]) -> Reply:
        raise RuntimeError("no idea")


@dataclass(frozen=True)
class Broken(Kill):
    """A fault that fails at its work."""

    error: type[BaseException] = ZeroDivisionError

    def inject(self, scene: Scene) -> None:
        raise self.error


DAEMON = "if os.fork() == 0: time.sleep(1000)\n"


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"target": Unprepared()}, OSError, "no space left"),
        ({"target": Nowhere()}, HarnessError, "cannot start 'no-such-program'"),
        ({"brain": Speechless()}, HarnessError, "the world failed: RuntimeError"),
        ({"faults": {"kill": Broken()}}, ZeroDivisionError, None),
        ({"faults": {"kill": Broken(error=KeyboardInterrupt)}}, KeyboardInterrupt, None),
    ],
    ids=["prepare", "launch", "brain", "fault", "ctrl-c"],
)
def test_errors_of_ours_come_out(
    tmp_path: Path, changes: Mapping[str, Any], error: type[BaseException], says: str | None, temporary: Path
) -> None:
    made = replace(toy.setup(toy.Toy(DAEMON + "work()"), {"kill": Kill()}, backoff_limit=0), **changes)
    with pytest.raises(error, match=says):
        execute(made, parse_plan("kill@1/after_act"), tmp_path / "journal", random.Random(0))
    assert processes(str(temporary)) == []
    events: tuple[Event, ...] = journal.read(tmp_path / "journal" / "journal.jsonl")
    assert all(isinstance(event, Event) for event in events)


def test_a_fault_is_injected_once(tmp_path: Path) -> None:
    """The point comes again after the restart; the plan names it once."""
    ran = toy.run(tmp_path, "for _ in range(3): point('before_act', 1)", "kill@1/before_act", {"kill": Kill()})
    assert ran.statuses == [-9, 0]
    assert len(ran.all(Injecting)) == 1


def test_the_empty_plan_breaks_nothing(tmp_path: Path) -> None:
    ran = toy.run(tmp_path)
    assert ran.statuses == [0]
    assert ran.landed == ()
    assert not ran.all(Injecting)
    assert parse_plan("no fault") == Plan()


# -- what killed harnesses left

DEAD = 4_194_305  # no process has a number above 2^22


def test_a_campaign_begins_by_removing_what_dead_ones_left(temporary: Path) -> None:
    dead, mine, other = (
        temporary / name for name in (f"{PREFIX}{DEAD}-x", f"{PREFIX}{os.getpid()}-x", "chaos-notes-2031")
    )
    for folder in (dead, mine, other):
        (folder / "sandbox").mkdir(parents=True)
    sweep()
    assert sorted(temporary.iterdir()) == sorted((mine, other))
    shutil.rmtree(mine)
    shutil.rmtree(other)


def test_a_dangling_link_is_nothing_to_stumble_over(temporary: Path) -> None:
    """As is a folder that another worker has just removed."""
    link = temporary / f"{PREFIX}{DEAD}-x"
    link.symlink_to("nowhere")
    try:
        sweep()
    finally:
        link.unlink(missing_ok=True)


@pytest.mark.parametrize("place", ["chaos.sandbox.process._empty", "chaos.leftovers.shutil.rmtree"])
def test_an_interrupt_in_the_middle_of_the_clean_up_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The fixture that watches every test of this file looks for what is left."""
    pending = [KeyboardInterrupt]
    original = pydoc.locate(place)

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if pending:
            raise pending.pop()
        return original(*arguments, **options)  # type: ignore[operator]

    monkeypatch.setattr(place, interrupted)
    with pytest.raises(KeyboardInterrupt):
        execute(toy.setup(toy.Toy()), Plan(), tmp_path, random.Random(1))
    assert not pending
