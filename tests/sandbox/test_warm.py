"""An agent that is forked from a process with its imports done is like one that was started anew."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import HarnessError
from chaos.events.seen import Asked, Effected, Exited, Observed, Reached
from chaos.plan import parse_plan
from chaos.run import Setup, execute
from chaos.sandbox import warm
from chaos.sandbox.incarnation import order
from chaos.sandbox.process import ProcessSandbox, able
from chaos.scenario import Limits
from chaos.targets.reference import Reference

MODULES = ("json", "sqlite3")
TELLS = """
    import json, os, signal, sys, threading
    json.dump({
        "argv": sys.argv[1:], "environment": dict(os.environ), "cwd": os.getcwd(), "name": __name__,
        "warm": "sqlite3" in sys.modules, "session": os.getsid(0) == os.getpid(),
        "files": len(os.listdir("/proc/self/fd")),
        "signals": [str(signal.getsignal(n)) for n in (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)],
        "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "threads": threading.active_count(),
    }, open("told.json", "w"))
"""


@pytest.fixture(autouse=True)
def none_left() -> Iterator[None]:
    yield
    warm.close_all()


@pytest.fixture(params=["namespaces", "none"])
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ProcessSandbox]:
    if request.param == "namespaces" and able().process_tree:
        pytest.skip(able().process_tree)
    box = ProcessSandbox(tmp_path / "box", 256 << 20, "first", namespaces=request.param == "namespaces")
    yield box
    box.close()


def start(
    sandbox: ProcessSandbox, tmp_path: Path, code: str, *arguments: str, modules: tuple[str, ...] = MODULES
) -> None:
    (tmp_path / "warm_agent.py").write_text(textwrap.dedent(code))
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "SAID": "this and only this"}
    sandbox.start((sys.executable, "-m", "warm_agent", *arguments), env, modules)


def told(sandbox: ProcessSandbox) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((sandbox.zones.workspace / "told.json").read_text())
    return found


def test_it_sees_what_a_new_interpreter_sees(sandbox: ProcessSandbox, tmp_path: Path) -> None:
    seen = []
    for modules in ((), MODULES):
        start(sandbox, tmp_path, TELLS, "one", "two", modules=modules)
        assert sandbox.wait(20) == 0, sandbox.log()
        seen.append(told(sandbox))
        seen[-1]["environment"].pop("LC_CTYPE", "")  # a new interpreter in the C locale sets it for itself (PEP 538)
    cold, forked = seen
    assert (cold.pop("warm"), forked.pop("warm")) == (False, True)
    assert forked == cold
    assert forked["argv"] == ["one", "two"] and forked["environment"]["SAID"] == "this and only this"


@pytest.mark.parametrize(
    ("code", "status", "says"),
    [
        ("pass", 0, ""),
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('no good')", 1, "no good"),
        ("raise ValueError('wrong')", 1, "ValueError: wrong"),
        ("import atexit; atexit.register(print, 'at the end')", 0, "at the end"),
        ("import threading\nthreading.Timer(0.1, print, ('in a thread',)).start()", 0, "in a thread"),
    ],
)  # fmt: skip
def test_it_ends_as_an_interpreter_does(tmp_path: Path, code: str, status: int, says: str) -> None:
    box = ProcessSandbox(tmp_path / "box", 0, "first")
    try:
        start(box, tmp_path, code)
        assert box.wait(20) == status
        assert says in box.log()
    finally:
        box.close()


def test_a_server_that_was_killed_is_replaced(sandbox: ProcessSandbox, tmp_path: Path) -> None:
    first = warm.server(MODULES)
    assert warm.server(MODULES) is first
    first._process.kill()
    first._process.wait()
    start(sandbox, tmp_path, TELLS)
    assert sandbox.wait(20) == 0
    assert warm.server(MODULES) is not first


def test_an_import_that_fails_is_told(sandbox: ProcessSandbox, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="fork server ended"):
        start(sandbox, tmp_path, TELLS, modules=("no_such_module",))


def test_modules_that_start_threads_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import threading, time; threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
    (tmp_path / "threads_at_import.py").write_text(code)
    monkeypatch.chdir(tmp_path)  # `python -m` finds it there
    with pytest.raises(HarnessError, match="starts threads"):
        warm.server(("threads_at_import",))


def test_only_so_many_servers_are_kept() -> None:
    servers = [warm.server((name,)) for name in ("json", "csv", "wave", "bz2")]
    assert [server.alive for server in servers] == [False, True, True, True]


def test_one_with_a_live_agent_is_kept_and_its_agent_ends_with_it(sandbox: ProcessSandbox, tmp_path: Path) -> None:
    start(sandbox, tmp_path, "import time; time.sleep(600)")
    first = warm.server(MODULES)
    with_namespaces = not able().process_tree and sandbox._mode == "direct"
    for name in ("csv", "wave", "bz2"):
        warm.server((name,))
    assert first.alive == with_namespaces and sandbox.wait(0) is None
    if with_namespaces:
        first.close()
        with pytest.raises(HarnessError, match="launcher was killed"):
            sandbox.wait(20)


def test_a_command_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "reader.py").write_text(
        "import sys; print('x' * 200_000); print('trouble', file=sys.stderr); sys.exit(3)"
    )
    command = order("none", "", (), (sys.executable, "-m", "reader"), {"PYTHONPATH": str(tmp_path)})
    assert warm.run(MODULES, command, tmp_path, 20) == (3, b"x" * 200_000 + b"\n", b"trouble\n")


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    (tmp_path / "sleeper.py").write_text("import time; print('begun', flush=True); time.sleep(600)")
    command = order("none", "", (), (sys.executable, "-m", "sleeper"), {"PYTHONPATH": str(tmp_path)})
    with pytest.raises(subprocess.TimeoutExpired):
        warm.run(MODULES, command, tmp_path, 0.3)


def test_a_command_that_is_killed_is_told_by_its_signal(tmp_path: Path) -> None:
    (tmp_path / "victim.py").write_text("import os; os.kill(os.getpid(), 9)")
    command = order("none", "", (), (sys.executable, "-m", "victim"), {"PYTHONPATH": str(tmp_path)})
    for _ in range(2):
        assert warm.run(MODULES, command, tmp_path, 20) == (-signal.SIGKILL, b"", b"")


HARNESS = """
import os, sys, time
from pathlib import Path
from chaos.sandbox.process import ProcessSandbox
folder = Path(sys.argv[1])
box = ProcessSandbox(folder / "box", 0, "first")
box.start((sys.executable, "-m", "warm_agent"), {"PYTHONPATH": str(folder)}, ("json",))
from chaos.sandbox import warm
print(box.pid, warm.server(("json",))._process.pid, *(file.parent for file in box.cgroups), flush=True)
time.sleep(600)
"""


def test_nothing_outlives_a_killed_harness(tmp_path: Path) -> None:
    (tmp_path / "warm_agent.py").write_text("import time; time.sleep(600)")
    with subprocess.Popen((sys.executable, "-c", HARNESS, tmp_path), stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        agent, server, *groups = harness.stdout.readline().split()
        pids = [int(agent), int(server)]
        assert all(Path(f"/proc/{pid}").exists() for pid in pids) and all(Path(group).exists() for group in groups)
        harness.kill()
    end = time.monotonic() + 20
    while any(_lives(pid) for pid in pids) or any(Path(group).exists() for group in groups):
        assert time.monotonic() < end, "something outlives the harness"
        time.sleep(0.02)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(bool(able().memory_limit), reason=able().memory_limit)
def test_the_kernel_s_oom_killer_finds_it(tmp_path: Path) -> None:
    box = ProcessSandbox(tmp_path / "box", 256 << 20, "first")
    try:
        start(box, tmp_path, "import time; open('up', 'w'); time.sleep(600)")
        end = time.monotonic() + 20
        while not (box.zones.workspace / "up").exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        _, _, before, after = box.oom_kill(None)
        assert after > before
        assert box.wait(20) == -signal.SIGKILL
    finally:
        box.close()


@pytest.mark.parametrize("name", ["chat_history", "delta", "cow"])
@pytest.mark.parametrize("plan", ["no fault", "kill@9/after_act", "evict@9/during_commit"])
def test_warm_and_cold_runs_are_equal(tmp_path: Path, name: str, plan: str) -> None:
    from chaos.faults.evict import Evict
    from chaos.faults.kill import Kill

    target = Reference(steps=12)
    runs = []
    for is_warm in (False, True):
        faults = {"kill": Kill(), "evict": Evict(0.2)}
        setup = Setup(
            target, target.strategy(name, {}), 1, target.brain(1), target.watch(), Limits(), faults, None, warm=is_warm
        )
        run = execute(setup, parse_plan(plan), tmp_path / str(is_warm), random.Random(1))
        assert run.finished, [event.log for event in run.exits]
        runs.append([_comparable(event) for event in run.events])
    assert runs[0] == runs[1]


def _comparable(event: object) -> object:
    """What two equal runs have in common, event by event."""
    match event:
        case Reached():
            return event.attempt, event.step, event.phase, event.state
        case Asked():
            return event.attempt, event.turn, event.prompt
        case Effected():
            return event.attempt, event.identity
        case Exited():
            return event.attempt, event.status
        case Observed(phase="finished"):  # at a resume the shell is just beginning
            processes = tuple((each.argv, each.environment, each.ports) for each in event.seen.processes)
            return event.step, event.seen.files, processes
    return type(event).__name__
