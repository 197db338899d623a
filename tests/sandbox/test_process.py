"""The process back end against the real kernel: statuses, whole trees, memory, disk, output, what is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import chaos
from chaos.errors import HarnessError
from chaos.sandbox import Watch, hierarchy
from chaos.sandbox.incarnation import LOG_BYTES, LOG_LINES, Incarnation
from chaos.sandbox.process import ProcessSandbox, able
from tests.waiting import PATIENCE, until

MB = 1 << 20
NOBODY = 65534

READY = "import os, signal, sys, time; ready = lambda: open('ready', 'w').close()\n"
ESCAPE = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        ready()
        time.sleep(1000)
    os._exit(0)
"""

needs_memory = pytest.mark.skipif(bool(able().memory_limit), reason=able().memory_limit or "-")
needs_namespaces = pytest.mark.skipif(bool(able().process_tree), reason=able().process_tree or "-")


def agent(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", READY + code]


def marked(mark: str) -> list[int]:
    """Return the processes that hold *mark* in their environment, host's numbers."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and mark.encode() in Path(f"/proc/{name}/environ").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return found


def cgroups(harness: int) -> list[Path]:
    """Return the folders of all cgroups of the process *harness*; others may be at work on this machine."""
    parent = hierarchy.find_parent()
    return [path for top in (parent.memory, parent.pids) if top for path in top.glob(f"chaos-*-{harness}-*")]


class Box:
    """A sandbox with short cuts for tests."""

    def __init__(self, root: Path, namespaces: bool, memory_bytes: int = 256 * MB) -> None:
        self.sandbox = ProcessSandbox(root, memory_bytes, "alpha", namespaces=namespaces)
        self.root = root
        self.mark = uuid.uuid4().hex

    def start(self, code: str, wait_for_ready: bool = True) -> int:
        (self.root / "workspace/ready").unlink(missing_ok=True)
        pid = self.sandbox.start(agent(code), {"PATH": os.defpath, "MARK": self.mark})
        if wait_for_ready:
            until((self.root / "workspace/ready").exists, f"the agent is ready; it printed {self.sandbox.log()!r}")
        return pid


@pytest.fixture(params=[pytest.param(True, id="namespaces", marks=needs_namespaces), pytest.param(False, id="bare")])
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Box]:
    box = Box(tmp_path / "box", request.param)
    yield box
    box.sandbox.close()
    box.sandbox.close()  # twice is fine
    assert not box.root.exists()
    assert not marked(box.mark)
    assert not cgroups(os.getpid())


# -- start


@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("late", [0.0, 0.003, 0.01])
def test_an_interrupt_while_an_agent_starts_leaves_nothing(
    box: Box, monkeypatch: pytest.MonkeyPatch, call: int, late: float
) -> None:
    """Ctrl-C comes at any time; what is half started must not keep the sandbox from being removed."""
    hear, calls = Incarnation._hear, iter(range(1, 9))

    def interrupted(self: Incarnation) -> list[str]:
        if next(calls) == call:
            time.sleep(late)
            raise KeyboardInterrupt
        return hear(self)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Incarnation, "_hear", interrupted)
        box.start("time.sleep(60)", wait_for_ready=False)
    box.sandbox.close()  # raises if the cgroup is still busy
    assert not marked(box.mark)


# -- status


@pytest.mark.parametrize("code, status", [("sys.exit(0)", 0), ("sys.exit(7)", 7), ("os._exit(255)", 255)])
def test_exit_code_is_exact(box: Box, code: str, status: int) -> None:
    box.start(code, wait_for_ready=False)
    assert box.sandbox.wait(PATIENCE) == status


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGUSR1])
def test_signal_status_is_exact(box: Box, number: int) -> None:
    # USR1 with its default action never reaches pid 1, as in any container; a fault of memory does.
    box.start("ready()\ntime.sleep(1000)" if number == signal.SIGKILL else "import ctypes; ctypes.string_at(0)", False)
    if number == signal.SIGKILL:
        box.sandbox.signal(number)
    assert box.sandbox.wait(PATIENCE) == (-9 if number == signal.SIGKILL else -signal.SIGSEGV)


def test_agent_handles_sigterm(box: Box) -> None:
    box.start("signal.signal(signal.SIGTERM, lambda *_: sys.exit(42))\nready()\ntime.sleep(1000)")
    assert box.sandbox.wait(0.05) is None
    box.sandbox.signal(signal.SIGTERM)
    assert box.sandbox.wait(PATIENCE) == 42
    box.sandbox.signal(signal.SIGTERM)  # gone: nothing happens


def test_signals_start_with_their_default_action(box: Box) -> None:
    former = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        box.start(
            "status = [signal.getsignal(s) == signal.SIG_DFL for s in (12, 15)]\nsys.exit(10 + sum(status))", False
        )
    finally:
        signal.signal(signal.SIGUSR2, former)
    assert box.sandbox.wait(PATIENCE) == 12


def test_command_that_cannot_start_is_an_error(box: Box) -> None:
    with pytest.raises(HarnessError, match=r"cannot start 'no-such-program' in .*workspace: No such file"):
        box.sandbox.start(["no-such-program"], {"PATH": os.defpath})
    with pytest.raises(HarnessError, match="empty"):
        box.sandbox.start([], {})
    with pytest.raises(HarnessError, match="NUL"):
        box.sandbox.start(["true", "\0"], {})
    box.start("sys.exit(3)", wait_for_ready=False)  # and does not spoil the next start
    assert box.sandbox.wait(PATIENCE) == 3


def test_one_agent_at_a_time(box: Box) -> None:
    with pytest.raises(HarnessError, match="no agent"):
        box.sandbox.wait(0)
    box.start("ready()\ntime.sleep(1000)")
    with pytest.raises(HarnessError, match="live agent"):
        box.sandbox.start(["true"], {})
    with pytest.raises(HarnessError, match="live agent"):
        box.sandbox.wipe()


def test_environment_and_folder_are_exactly_those_given(box: Box) -> None:
    box.sandbox.start(
        agent("print(sorted(os.environb.items()), os.getcwd())"), {"A": "ä=b", "TMPDIR": "/x", "HOSTNAME": "h"}
    )
    assert box.sandbox.wait(PATIENCE) == 0
    given = [(b"A", "ä=b".encode()), (b"HOSTNAME", b"h"), (b"LC_CTYPE", b"C.UTF-8"), (b"TMPDIR", b"/x")]
    given_without_coercion = [pair for pair in given if pair[0] != b"LC_CTYPE"]  # Python adds it for the C locale
    folder = box.sandbox.zones.workspace
    assert box.sandbox.log() in (f"{given} {folder}", f"{given_without_coercion} {folder}")


def test_agent_outlives_the_thread_that_started_it(box: Box) -> None:
    thread = threading.Thread(target=box.start, args=("ready()\ntime.sleep(1000)",))
    thread.start()
    thread.join()
    assert box.sandbox.wait(0.2) is None


# -- trees


def test_kill_takes_an_escaped_grandchild(box: Box) -> None:
    box.start(ESCAPE + "time.sleep(1000)")
    assert len(marked(box.mark)) == 2
    box.sandbox.kill()
    assert box.sandbox.wait(PATIENCE) == -9
    assert not marked(box.mark)
    box.sandbox.kill()


def test_nothing_is_left_when_the_agent_ends_by_itself(box: Box) -> None:
    box.start(ESCAPE + "while not os.path.exists('ready'): time.sleep(0.01)\nsys.exit(5)", wait_for_ready=False)
    assert box.sandbox.wait(PATIENCE) == 5
    assert not marked(box.mark)


def test_close_ends_a_live_tree(box: Box) -> None:
    box.start(ESCAPE + "time.sleep(1000)")
    box.sandbox.close()
    assert not marked(box.mark)
    assert not box.root.exists()


@pytest.mark.skipif(hierarchy.find_parent().pids is None and able().memory_controller != "v2", reason="no pids cgroup")
def test_forks_without_end_are_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hierarchy, "PIDS_LIMIT", 50)
    for namespaces in (True, False):
        box = Box(tmp_path / "box", namespaces)
        box.start(
            "while True:\n try: os.fork()\n except OSError: ready()"  # children fork on as well
        )
        assert 10 < len(marked(box.mark)) <= 50
        box.sandbox.kill()
        assert box.sandbox.wait(PATIENCE) == -9
        assert not marked(box.mark)
        box.sandbox.close()


HARNESS = """
import sys, time
from pathlib import Path
from chaos.sandbox.process import ProcessSandbox
root, namespaces, mark, code = sys.argv[1:]
box = ProcessSandbox(Path(root), 256 << 20, "alpha", namespaces=namespaces == "True")
print(box.start([sys.executable, "-I", "-S", "-c", code], {"MARK": mark}), flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("launcher_too", [False, True])
@pytest.mark.parametrize("namespaces", [pytest.param(True, marks=needs_namespaces), False])
def test_nothing_outlives_a_killed_harness(tmp_path: Path, namespaces: bool, launcher_too: bool) -> None:
    if launcher_too and not namespaces:
        pytest.skip("without a PID namespace only the agent itself dies with its launcher; the rest is swept later")
    mark = uuid.uuid4().hex
    words = [str(tmp_path / "box"), str(namespaces), mark, READY + ESCAPE + "time.sleep(1000)"]
    harness = subprocess.Popen([sys.executable, "-c", HARNESS, *words], stdout=subprocess.PIPE, text=True)
    assert harness.stdout
    pid = int(harness.stdout.readline())
    until((tmp_path / "box/workspace/ready").exists, "the grandchild runs")
    assert len(marked(mark)) == 2
    launcher = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    harness.kill()
    if launcher_too:
        os.kill(launcher, signal.SIGKILL)
    harness.wait()
    harness.stdout.close()
    until(lambda: not marked(mark), "all processes are gone")
    if not launcher_too:
        until(lambda: not cgroups(harness.pid), "its cgroups are gone")
    else:
        hierarchy._sweep(hierarchy.find_parent())  # what the next harness does first
        assert not cgroups(harness.pid)


def test_killed_launcher_is_not_a_result(box: Box) -> None:
    pid = box.start("ready()\ntime.sleep(1000)")
    os.kill(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
    with pytest.raises(HarnessError, match="launcher was killed"):
        box.sandbox.wait(PATIENCE)
    assert not marked(box.mark)


# -- host and disk


@needs_namespaces
def test_hostname_changes_with_the_next_incarnation(tmp_path: Path) -> None:
    box = Box(tmp_path / "box", namespaces=True)
    names = []
    for name in ("", "beta"):
        if name:
            box.sandbox.rename_host(name)
        box.start("print(os.uname().nodename, os.environ['HOSTNAME'])", wait_for_ready=False)
        box.sandbox.wait(PATIENCE)
        names.append(box.sandbox.log())
    box.sandbox.close()
    assert names == ["alpha alpha", "beta beta"]
    assert os.uname().nodename not in ("alpha", "beta")


def test_wipe_empties_the_container_disk_only(box: Box) -> None:
    deep = "/".join("d" * 200 for _ in range(4))
    box.start(
        f"""
os.makedirs('a/b'); open('a/b/f', 'w').write('x'); os.symlink('/etc', 'a/link')
os.chmod('a/b', 0o500); os.chmod('a', 0)
for _ in range(8): os.makedirs({deep!r}); os.chdir({deep!r})
open('bottom', 'w').close()
for zone in ('tmp', 'durable', 'assets'): open({str(box.root)!r} + '/' + zone + '/kept', 'w').close()
""",
        wait_for_ready=False,
    )
    assert box.sandbox.wait(PATIENCE) == 0, box.sandbox.log()
    assert box.sandbox.wipe() == 4 + 32 + 1 + 1
    assert os.listdir(box.root / "workspace") == os.listdir(box.root / "tmp") == []
    assert os.listdir(box.root / "durable") == os.listdir(box.root / "assets") == ["kept"]
    assert box.sandbox.wipe() == 0


def test_wipe_does_not_follow_a_zone_that_became_a_link(box: Box, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    os.rmdir(box.root / "workspace")
    os.rmdir(box.root / "tmp")
    os.symlink(tmp_path / "precious", box.root / "workspace")
    assert box.sandbox.observe(Watch()).files == ()
    box.sandbox.wipe()
    assert (tmp_path / "precious/file").exists()
    assert os.listdir(box.root / "workspace") == os.listdir(box.root / "tmp") == []


def test_written_bytes_grow(box: Box) -> None:
    assert box.sandbox.written_bytes() == 0
    box.start(
        "f = open('data', 'wb')\nf.write(bytes(1 << 20)); f.flush(); os.fsync(f.fileno())\nready()\ntime.sleep(1000)"
    )
    if box.sandbox.written_bytes() == 0:
        pytest.skip("the workspace is on a file system that writes nothing to a disk")
    assert box.sandbox.written_bytes() >= MB
    box.sandbox.kill()
    box.sandbox.wait(PATIENCE)
    assert box.sandbox.written_bytes() == 0


# -- output


def test_log_holds_the_last_lines_of_the_present_incarnation(box: Box) -> None:
    box.start("print('old')", wait_for_ready=False)
    box.sandbox.wait(PATIENCE)
    box.start("for i in range(1000): print(i)\nprint('ä', flush=True)\nos.write(2, b'\\xff!')", wait_for_ready=False)
    box.sandbox.wait(PATIENCE)
    lines = box.sandbox.log().splitlines()
    assert len(lines) == LOG_LINES
    assert lines[-3:] == ["999", "ä", "\N{REPLACEMENT CHARACTER}!"]


def test_a_flood_of_output_neither_blocks_nor_fills(box: Box) -> None:
    box.start("for _ in range(1600): os.write(1, b'x' * (1 << 16))\nprint('done')", wait_for_ready=False)
    assert box.sandbox.wait(PATIENCE) == 0
    assert box.sandbox.log().endswith("xdone")
    assert len(box.sandbox.log()) <= LOG_BYTES
    assert sum(file.stat().st_size for file in box.root.rglob("*") if file.is_file()) == 0


# -- memory


SLEEPS = "x = bytearray(20 << 20)\nready()\ntime.sleep(1000)"
READS = "x = bytearray(20 << 20)\nr, w = os.pipe()\nready()\nos.read(r, 1)"
CACHES = "f = open('big', 'wb'); f.write(bytes(60 << 20)); f.flush(); os.fsync(f.fileno())\nready()\ntime.sleep(1000)"
GROWS = "x = []\nready()\nwhile len(x) < 1500: x.append(bytearray(1 << 16)); time.sleep(0.0005)\ntime.sleep(1000)"


@needs_memory
@pytest.mark.parametrize("code", [SLEEPS, READS, CACHES, GROWS], ids=["sleeps", "reads", "caches", "grows"])
def test_oom_kill_hits(box: Box, code: str) -> None:
    box.start(ESCAPE + "while not os.path.exists('ready'): time.sleep(0.01)\nos.unlink('ready')\n" + code)
    until(lambda: len(marked(box.mark)) == 2, "agent and grandchild run")
    limit, usage, before, after = box.sandbox.oom_kill(None)
    assert box.sandbox.wait(PATIENCE) == -9
    assert before == 0 < after == box.sandbox.oom_kills()
    assert usage > 0 and limit < 256 * MB
    assert not marked(box.mark)
    # The next incarnation has the normal limit again, and the counter goes on.
    box.start("x = bytearray(150 << 20)\nready()\ntime.sleep(1000)")
    assert box.sandbox.oom_kill(None)[2] == after
    assert box.sandbox.wait(PATIENCE) == -9


@needs_memory
def test_a_limit_below_the_usage_hits(box: Box) -> None:
    box.start("x = bytearray(60 << 20)\nready()\ntime.sleep(1000)")
    *_, before, after = box.sandbox.oom_kill(40 * MB)
    assert after > before
    assert box.sandbox.wait(PATIENCE) == -9


@needs_memory
def test_a_tiny_agent_is_hit_and_not_the_trigger(box: Box) -> None:
    box.sandbox.start(["/bin/sh", "-c", "sleep 1000 & sleep 1000"], {"MARK": box.mark, "PATH": os.defpath})
    until(lambda: len(marked(box.mark)) == 3, "the shell and both sleeps run")
    *_, before, after = box.sandbox.oom_kill(None)
    assert after > before
    assert box.sandbox.wait(PATIENCE) == -9


@needs_memory
def test_a_limit_that_is_too_high_misses(box: Box) -> None:
    pid = box.start(SLEEPS + "")
    score = Path(f"/proc/{pid}/oom_score_adj")
    former = score.read_text()
    limit, usage, before, after = box.sandbox.oom_kill(200 * MB)
    assert limit == 200 * MB and 20 * MB < usage < 100 * MB
    assert before == after == box.sandbox.oom_kills()
    assert box.sandbox.wait(0.1) is None
    assert score.read_text() == former
    assert box.sandbox._cgroup and box.sandbox._cgroup.limit() == 256 * MB
    assert not [pid for pid in box.sandbox._cgroup.pids() if pid not in marked(box.mark)], "the trigger is gone"


@needs_memory
@pytest.mark.parametrize("namespaces", [pytest.param(True, marks=needs_namespaces), False])
def test_too_small_a_limit_is_a_real_oom_kill(tmp_path: Path, namespaces: bool) -> None:
    box = Box(tmp_path / "box", namespaces, memory_bytes=40 * MB)
    box.start("try: x = bytearray(100 << 20)\nexcept MemoryError: sys.exit(1)", wait_for_ready=False)
    assert box.sandbox.wait(PATIENCE) == -9
    assert box.sandbox.oom_kills() > 0
    box.sandbox.close()


def test_oom_kill_needs_a_live_agent(box: Box) -> None:
    with pytest.raises(HarnessError, match="OOM"):
        box.sandbox.oom_kill(None)


# -- less privilege


BARE = """
import sys
from pathlib import Path
from chaos.errors import HarnessError
from chaos.sandbox.process import ProcessSandbox, able
print(able())
box = ProcessSandbox(Path(sys.argv[1]), 64 << 20, "alpha", namespaces=False)
box.start(["sleep", "1000"], {"PATH": "/usr/bin:/bin"})
try:
    box.oom_kill(None)
except HarnessError as error:
    print(error)
print(box.oom_kills(), box.wait(0.05), box.kill(), box.wait(10), box.close())
"""


def test_without_a_cgroup_says_so_and_works(tmp_path: Path) -> None:
    env = {**os.environ, hierarchy.VARIABLE: str(tmp_path / "none")}
    done = subprocess.run([sys.executable, "-c", BARE, str(tmp_path / "box")], env=env, capture_output=True, text=True)
    assert done.stderr == ""
    powers, refusal, result = done.stdout.splitlines()
    assert "memory_limit='no memory cgroup can be made here" in powers
    assert refusal.startswith("no OOM kill is possible: no memory cgroup") and hierarchy.VARIABLE in refusal
    assert result == "0 None None -9 None"


def _python_for_nobody() -> list[str]:
    """Return the command of an interpreter that an unprivileged user may run, with our packages on its path."""
    paths = [Path(module.__file__ or "").parents[1] for module in (chaos, msgspec, pytest)]
    drop = [
        "setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        "env",
        "-i",
        f"PATH={os.environ['PATH']}",
    ]
    drop += ["PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", "PYTHONDONTWRITEBYTECODE=1", f"PYTHONPATH={':'.join(map(str, paths))}"]
    for python in (sys.executable, "/usr/bin/python3"):
        command = [*drop, python]
        if (
            subprocess.run([*command, "-c", "import chaos.journal, pytest"], capture_output=True, cwd="/").returncode
            == 0
        ):
            return command
    pytest.skip("no Python interpreter with our packages that an unprivileged user may run")


@pytest.fixture
def delegated(tmp_path: Path) -> Iterator[Path]:
    """A memory cgroup that root made for an unprivileged user."""
    parent = hierarchy.find_parent()
    assert parent.memory
    folder = parent.memory / f"delegated-{uuid.uuid4().hex}"
    folder.mkdir()
    for path in (folder, *folder.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    yield folder
    for path in [*folder.iterdir(), folder]:
        if path.is_dir():
            path.rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv (util-linux) is missing")
@needs_memory
def test_all_of_this_as_an_unprivileged_user(delegated: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    command = _python_for_nobody()
    folder = Path("/tmp") / f"chaos-nobody-{uuid.uuid4().hex}"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    tests = [__file__, "-k", "not unprivileged", "-p", "no:cacheprovider", "-rA", "-c", "/dev/null", "--rootdir=/"]
    run = [*command, "-m", "pytest", "--import-mode=importlib", f"--basetemp={folder}/pytest", *tests]
    # Inside the delegated cgroup, since v2 allows to move processes only below a common ancestor that is ours.
    enter = ["/bin/sh", "-c", 'echo $$ > "$0"/cgroup.procs && exec "$@"', str(delegated)]
    try:
        done = subprocess.run([*enter, *run], capture_output=True, text=True, cwd="/")
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = [line for line in done.stdout.splitlines() if line.startswith("PASSED")]
    for name in ("test_oom_kill_hits[namespaces-sleeps]", "test_kill_takes_an_escaped_grandchild[namespaces]"):
        assert any(name in line for line in passed), done.stdout
