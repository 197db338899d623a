"""Containers against the real engine: statuses, whole trees, memory, disk, what is seen, what is left behind."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos import ports
from chaos.errors import HarnessError
from chaos.leftovers import PREFIX
from chaos.sandbox import Sandbox, Watch
from chaos.sandbox.docker import DockerBackend, container, engine, life, memory, witness
from chaos.sandbox.docker.life import Caller
from chaos.sandbox.docker.sandbox import DockerSandbox
from chaos.sandbox.process import ProcessSandbox
from chaos.sandbox.tree import alive, state
from tests.waiting import PATIENCE, until

MB = 1 << 20
LACKS = DockerBackend().able().sandbox

pytestmark = pytest.mark.skipif(bool(LACKS), reason=LACKS or "-")
needs_memory = pytest.mark.skipif(bool(DockerBackend().able().memory_limit), reason=DockerBackend().able().memory_limit)

READY = "import os, signal, socket, subprocess, sys, time; ready = lambda: open('../durable/ready', 'w').close()\n"


def ours(pid: int) -> list[str]:
    """Return the containers and volumes of the harness *pid*."""
    client, label = engine.client(), {"label": f"{engine.LABEL}={PREFIX}{pid}"}
    containers = [one.name for one in client.containers.list(all=True, filters=label, ignore_removed=True)]
    return containers + [volume.name for volume in client.volumes.list(filters=label)]


def start(sandbox: Sandbox, code: str, wait_for_ready: bool = True, **env: str) -> int:
    (sandbox.zones.durable / "ready").unlink(missing_ok=True)
    command = [sys.executable, "-I", "-S", "-c", READY + code]
    pid = sandbox.start(command, {"PATH": os.environ["PATH"], **env})
    if wait_for_ready:
        until((sandbox.zones.durable / "ready").exists, f"the agent is ready; it printed {sandbox.log()!r}")
    return pid


def ended(sandbox: Sandbox, code: str) -> tuple[int | None, str]:
    """Return how an agent of that *code* ended, and what it printed."""
    start(sandbox, code, wait_for_ready=False)
    return sandbox.wait(PATIENCE), sandbox.log()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[DockerSandbox]:
    box = DockerSandbox(tmp_path / "box", 256 * MB, "alpha-1")
    yield box
    box.close()
    box.close()  # twice is fine
    assert not box.zones.root.exists()
    assert ours(os.getpid()) == []


# -- start and end


def test_statuses_are_exact(box: DockerSandbox) -> None:
    for code, status in (
        ("sys.exit(0)", 0),
        ("sys.exit(7)", 7),
        ("sys.exit(143)", 143),  # what a handler of SIGTERM says; pid 1 cannot die of it
        ("os._exit(255)", 255),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
        ("os.kill(1, signal.SIGTERM); time.sleep(0.1); sys.exit(3)", 3),  # pid 1 gets only what it handles
    ):
        assert ended(box, code)[0] == status, code


@pytest.mark.skipif(
    tuple(map(int, platform.release().split(".")[:2])) < (6, 15), reason="Linux before 6.15 keeps no exit status"
)
def test_an_exit_code_is_not_taken_for_a_signal(box: DockerSandbox) -> None:
    assert ended(box, "os._exit(137)")[0] == 137


def test_sigkill_and_sigterm(box: DockerSandbox) -> None:
    start(box, "signal.signal(signal.SIGTERM, lambda *_: sys.exit(42)); ready(); time.sleep(1000)")
    assert box.wait(0.05) is None
    box.signal(signal.SIGTERM)
    assert box.wait(PATIENCE) == 42
    box.signal(signal.SIGTERM)  # gone: nothing happens
    start(box, "ready(); time.sleep(1000)")
    box.signal(signal.SIGTERM)  # not handled
    assert box.wait(0.1) is None
    box.kill()
    assert box.wait(PATIENCE) == -signal.SIGKILL


def test_a_whole_tree_is_stopped_and_killed(box: DockerSandbox) -> None:
    escapes = "if os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  ready(); time.sleep(1000)\n os._exit(0)\n"
    pid = start(box, f"{escapes}time.sleep(1000)")
    stopped = box.stop()
    assert pid in stopped and len(stopped) == 2
    until(lambda: {state(one) for one in stopped} == {"T"}, "all are stopped")
    box.resume()
    until(lambda: "T" not in map(state, stopped), "all go on")
    assert set(box.stop()) == set(stopped)
    box.kill()
    assert box.wait(PATIENCE) == -signal.SIGKILL
    assert not any(map(alive, stopped))


def test_every_incarnation_has_its_own_command_and_environment(box: DockerSandbox) -> None:
    tell = "print(os.getpid(), os.getcwd(), *sorted(os.environ.items()))"
    for number in "12":
        start(box, tell, wait_for_ready=False, NUMBER=number, ODD="tab\t\udcff")
        assert box.wait(PATIENCE) == 0
        pid, cwd, *_ = box.log().split(" ", 2)
        assert (pid, cwd) == ("1", str(box.zones.workspace))
        assert f"('NUMBER', '{number}')" in box.log() and r"('ODD', 'tab\t\udcff')" in box.log()
        assert f"('TMPDIR', '{box.zones.tmp}')" in box.log() and "('HOSTNAME', 'alpha-1')" in box.log()
        assert "CHAOS" not in box.log() and "HOME" not in box.log()


def test_what_cannot_be_started_is_told_and_the_sandbox_lives_on(box: DockerSandbox) -> None:
    with pytest.raises(HarnessError, match=r"cannot start 'no-such-program' in .*No such file"):
        box.start(["no-such-program"], {"PATH": os.defpath})
    with pytest.raises(HarnessError, match="command is empty"):
        box.start([], {})
    assert ended(box, "print('here')") == (0, "here")
    start(box, "ready(); time.sleep(1000)")
    with pytest.raises(HarnessError, match="still holds a live agent"):
        box.start(["true"], {})


def test_the_log_has_the_last_lines_of_a_flood(box: DockerSandbox) -> None:
    _, log = ended(box, "for n in range(100_000): print('line', n)\nprint('last words')")
    assert log.endswith("line 99999\nlast words") and len(log) < MB


@pytest.mark.parametrize("late", [False, True], ids=["before its first program calls", "after it got its order"])
def test_an_interrupt_while_an_agent_starts_leaves_nothing(
    box: DockerSandbox, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(life.Life if late else Caller, "_begin" if late else "accept", interrupted)
        start(box, "time.sleep(60)", wait_for_ready=False)
    assert ended(box, "sys.exit(5)")[0] == 5  # and it can still be used


def test_nobody_else_gets_an_order(box: DockerSandbox) -> None:
    """The socket's name can be found out; only pid 1 of the container is let in."""
    import socket

    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect("\0" + box._caller.name)
        stranger.settimeout(PATIENCE)
        assert ended(box, "print('mine')") == (0, "mine")
        assert stranger.recv(1) == b""


# -- disk and host


def test_a_process_fault_keeps_the_disk_and_an_eviction_loses_it(box: DockerSandbox) -> None:
    write = "for n, d in enumerate(('.', os.environ['TMPDIR'], '../durable')): open(f'{d}/{n}', 'w')\n"
    look = "print(socket.gethostname(), *(sorted(os.listdir(d)) for d in ('.', '../tmp', '../durable')))"
    start(box, f"{write}os.mkdir('deep'); open('deep/3', 'w'); ready(); time.sleep(1000)")
    with pytest.raises(HarnessError, match="under a live agent"):
        box.wipe()
    box.kill()
    assert box.wait(PATIENCE) == -signal.SIGKILL
    assert ended(box, look) == (0, "alpha-1 ['0', 'deep'] ['1'] ['2']")
    with pytest.raises(HarnessError, match="keeps its hostname with its disk"):
        box.rename_host("alpha-2")
    first = box.container
    assert box.wipe() == 4
    box.rename_host("alpha-2")
    assert ended(box, look) == (0, "alpha-2 [] [] ['2']")
    assert box.container != first and engine.client().volumes.get(box.volume)
    assert sorted(path.name for path in box.zones.durable.iterdir()) == ["2"]  # seen from outside too


def test_zones_that_an_agent_removed_are_made_anew(box: DockerSandbox) -> None:
    ended(box, "import shutil; shutil.rmtree(os.getcwd()); shutil.rmtree(os.environ['TMPDIR'])")
    assert ended(box, "print(os.getcwd(), os.listdir(os.environ['TMPDIR']))") == (0, f"{box.zones.workspace} []")


def test_what_is_the_machines_is_read_only(box: DockerSandbox) -> None:
    (box.zones.assets / "gift").write_text("for you")
    code = """
print(open('../assets/gift').read())
for path in ('../assets/new', '/usr/new', '/etc/new', os.path.dirname(sys.executable) + '/new'):
    try: open(path, 'w')
    except OSError as error: print(error.strerror)
"""
    assert ended(box, code) == (0, "for you\n" + "\n".join(["Read-only file system"] * 4))


def test_another_sandbox_has_the_durable_zone_and_its_own_disk(box: DockerSandbox, tmp_path: Path) -> None:
    (box.zones.assets / "gift").write_text("for you")
    start(box, "open('mine', 'w'); open('../durable/shared', 'w').write('of one'); ready(); time.sleep(1000)")
    second = DockerBackend().beside(box, tmp_path / "second", 64 * MB, "beta-1")
    try:
        code = "print(os.listdir(), open('../durable/shared').read(), open('../assets/gift').read())"
        assert ended(second, code) == (0, "[] of one for you")
        assert (second.zones.durable / "shared").read_text() == "of one"
        assert box.wait(0.0) is None
    finally:
        second.close()
    assert (box.zones.durable / "shared").exists() and (box.zones.assets / "gift").exists()
    with pytest.raises(HarnessError, match="two containers cannot have one disk"):
        DockerBackend().beside(box, None, 64 * MB, "alpha-1")


def test_a_command_is_run_to_its_end_on_the_same_disk(box: DockerSandbox) -> None:
    ended(box, "open('kept', 'w').write('x')")
    env = {"PATH": os.environ["PATH"]}
    code = "import os, sys; print(os.getcwd(), os.listdir('workspace')); print('oh', file=sys.stderr); sys.exit(3)"
    status, output, errors = box.run([sys.executable, "-c", code], env, (), PATIENCE)
    assert (status, output, errors) == (3, f"{box.zones.root} ['kept']\n".encode(), b"oh\n")
    with pytest.raises(subprocess.TimeoutExpired):
        box.run(["sleep", "1000"], env, (), 0.2)
    assert not life.state(box.container)["Running"]


# -- memory

AGENTS = {
    "sleeps": "ready(); time.sleep(1000)",
    "is small beside its child": """
child = "b = bytearray(80 << 20); print(1, flush=True); input()"
subprocess.Popen([sys.executable, "-c", child], stdin=-1, stdout=-1).stdout.readline(); ready(); time.sleep(1000)
""",
    "allocates": "ready()\nkept = []\nfor _ in range(90): kept.append(bytearray(1 << 20)); time.sleep(0.005)\n"
    "time.sleep(1000)",
    "has much in the page cache": "open('big', 'wb').write(bytes(100 << 20)); ready(); time.sleep(1000)",
}


@needs_memory
def test_the_kernel_kills_the_agent_whatever_it_does(box: DockerSandbox) -> None:
    for kills, (what, code) in enumerate(AGENTS.items()):
        start(box, code)
        assert box.oom_kills() >= kills
        limit, usage, before, after = box.oom_kill(None)
        assert after > before >= kills and limit >= usage > 0, what
        assert box.wait(0.0) == -signal.SIGKILL, what
        assert life.state(box.container)["OOMKilled"] and life.state(box.container)["ExitCode"] == 137
    assert ended(box, "kept = bytearray(100 << 20)")[0] == 0  # its own limit is in force again


@needs_memory
def test_a_limit_above_what_it_uses_misses(box: DockerSandbox) -> None:
    pid = start(box, "ready(); time.sleep(1000)")
    score = Path(f"/proc/{pid}/oom_score_adj").read_text()
    limit, usage, before, after = box.oom_kill(200 * MB)
    assert (limit, before, after, box.wait(0.0)) == (200 * MB, 0, 0, None) and usage < limit
    assert Path(f"/proc/{pid}/oom_score_adj").read_text() == score
    assert engine.client().api.inspect_container(box.container)["HostConfig"]["Memory"] == 256 * MB
    assert box.oom_kill(8 * MB)[3] == 1 and box.wait(0.0) == -signal.SIGKILL  # below it, it hits


@needs_memory
def test_where_no_cgroup_can_be_read_the_engine_is_the_witness(
    box: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a harness that is in a container itself and has the socket."""
    monkeypatch.setattr(memory, "group_of", lambda pid: None)
    start(box, AGENTS["sleeps"])
    limit, usage, before, after = box.oom_kill(None)
    assert (before, after, box.wait(0.0)) == (0, 1, -signal.SIGKILL) and limit >= usage > 0
    assert ended(box, "pass")[0] == 0 and box.oom_kills() == 1


@needs_memory
def test_a_signal_is_no_oom_kill(box: DockerSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(container: str, *_: object) -> tuple[int, bool]:
        box.kill()
        return 0, True

    start(box, "ready(); time.sleep(1000)")
    monkeypatch.setattr(memory, "squeeze", kill)
    assert box.oom_kill(None)[2:] == (0, 0)


# -- observation

SCENE = '''
open('plain.txt', 'w').write('my root is ' + os.path.dirname(os.getcwd()) + '!')
os.makedirs('deep/er'); os.chmod('deep', 0o750); os.symlink(os.getcwd() + '/plain.txt', 'link'); os.mkfifo('fifo')
open(b'odd-\\xff', 'w'); open('noise.log', 'w').write(os.urandom(4).hex()); os.makedirs('__pycache__/x')
open(os.environ['TMPDIR'] + '/temporary', 'w'); os.makedirs('../durable/site/pandas-2.2.dist-info')
git = dict(os.environ, GIT_AUTHOR_DATE='2026-01-01T00:00:00Z', GIT_COMMITTER_DATE='2026-01-01T00:00:00Z')
os.mkdir('repo'); open('repo/a', 'w').write('a')
for words in ('init -q .', 'add a', '-c user.name=n -c user.email=e commit -q -m one'):
    subprocess.run(['git', *words.split()], cwd='repo', env=git, check=True)
open('repo/untracked', 'w')
server = """import os, socket, time
listener = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
open("../durable/up", "w"); time.sleep(1000)"""
subprocess.Popen([sys.executable, '-I', '-S', '-c', server, '--data=' + os.getcwd(), os.environ['PORT']])
while not os.path.exists('../durable/up'): time.sleep(0.01)
ready(); time.sleep(1000)
'''
WATCH_FILES = ("workspace/*.log",)


def seen(sandbox: Sandbox, port: int) -> tuple[Any, ...]:
    """Return what is seen of an agent that does `SCENE`; the processes without their numbers."""
    watch = Watch(environment=("MODE",), ports=(("PORT", port),), volatile=WATCH_FILES)
    try:
        start(sandbox, SCENE, PORT=str(port), MODE="quiet")
        found = sandbox.observe(watch)
        processes = [(one.argv, one.cwd, one.environment, one.ports) for one in found.processes]
        assert {one.pid for one in found.processes} and all(map(alive, (one.pid for one in found.processes)))
        return found.files, found.repositories, processes, found.packages
    finally:
        sandbox.close()


def test_the_same_is_seen_as_of_a_process_sandbox(tmp_path: Path) -> None:
    with ports.claimed(("port",)) as ((_, port),):
        in_container = seen(DockerSandbox(tmp_path / "container", 256 * MB, "alpha-1"), port)
        as_process = seen(ProcessSandbox(tmp_path / "p", 256 * MB, "alpha-1"), port)
    assert in_container == as_process
    files, repositories, processes, packages = in_container
    assert {"workspace/plain.txt", "workspace/fifo", "workspace/odd-\\xff", "tmp/temporary"} <= {f.path for f in files}
    assert repositories[0].log[0].endswith(" one") and repositories[0].status == ("?? untracked",)
    assert processes[0][2:] == ((("MODE", "quiet"),), ("$PORT",)) and packages == ("pandas-2.2",)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("nsenter"), reason="only root can mount in a container")
def test_files_that_only_the_engine_knows_are_told(box: DockerSandbox) -> None:
    """A mount over a folder of the container hides what its layer has: the two witnesses differ."""
    pid = start(box, "os.mkdir('sub'); open('sub/hidden', 'w'); ready(); time.sleep(1000)")
    assert [entry.path for entry in box.observe(Watch()).files] == ["workspace/sub", "workspace/sub/hidden"]
    folder = box.zones.workspace / "sub"
    subprocess.run(["nsenter", "-t", str(pid), "-m", "mount", "-t", "tmpfs", "none", folder], check=True)
    with pytest.raises(HarnessError, match="workspace/sub/hidden: in the engine's layer, not seen"):
        box.observe(Watch())
    box.kill()
    assert box.wait(PATIENCE) == -signal.SIGKILL


def test_files_that_only_we_see_are_told(box: DockerSandbox) -> None:
    start(box, "os.mkdir('sub'); open('noise.log', 'w'); os.makedirs('x/.git/objects'); ready(); time.sleep(1000)")
    watch = Watch(volatile=WATCH_FILES)
    found = box.observe(watch)
    assert witness.differences(container.diff(box.container), found, box.zones, watch) == ()
    assert witness.differences(container.diff(box.container), found, box.zones, Watch()) == (
        "workspace/noise.log: in the engine's layer, not seen",
    )
    assert witness.differences([], found, box.zones, watch) == tuple(
        f"workspace/{name}: seen, not in the engine's layer" for name in ("sub", "x")
    )


def test_an_ended_agent_cannot_be_observed(box: DockerSandbox) -> None:
    ended(box, "pass")
    with pytest.raises(HarnessError, match="holds no live agent"):
        box.observe(Watch())
    assert box.written_bytes() == 0 and box.stop() == ()


def test_written_bytes_are_those_of_the_agent(box: DockerSandbox) -> None:
    start(
        box, "f = open('big', 'wb'); f.write(bytes(5 << 20)); f.flush(); os.fsync(f.fileno()); ready(); time.sleep(99)"
    )
    assert 5 * MB <= box.written_bytes() < 6 * MB


# -- what is left behind

HARNESS = """
import sys
from pathlib import Path
from chaos import leftovers, ports
from chaos.sandbox.docker.sandbox import DockerSandbox
box = DockerSandbox(leftovers.folder() / "sandbox", 64 << 20, "alpha-1")
box.start(["sleep", "1000"], {"PATH": "/usr/bin:/bin"})
print(box.pid, flush=True)
sys.stdin.read()
"""


def test_what_a_killed_harness_left_is_swept_and_what_a_live_one_has_is_not(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    harness = subprocess.Popen([sys.executable, "-c", HARNESS], env=env, text=True, stdin=-1, stdout=-1)
    assert harness.stdout
    agent = int(harness.stdout.readline())
    engine.sweep()
    assert len(ours(harness.pid)) == 2 and alive(agent)
    harness.kill()
    harness.communicate()
    assert len(ours(harness.pid)) == 2 and alive(agent)
    DockerBackend().sweep()
    assert ours(harness.pid) == [] and not alive(agent)


def test_what_this_process_still_has_goes_at_its_end(tmp_path: Path) -> None:
    box = DockerSandbox(tmp_path / "box", 64 * MB, "alpha-1")
    start(box, "ready(); time.sleep(1000)")
    assert len(ours(os.getpid())) == 2
    DockerBackend().sweep_own()
    assert ours(os.getpid()) == []
    box.close()


def test_the_image_is_made_once_and_can_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = f"chaos-test-{uuid.uuid4().hex}"  # others may be at work with the real one
    monkeypatch.setattr(engine, "REPOSITORY", mine)
    monkeypatch.setattr(engine, "IMAGE", mine)
    assert engine.images() == []
    tag = engine.image()
    (number,) = engine.images()
    assert tag.startswith(f"{mine}:") and engine.image() == tag and engine.images() == [number]
    assert engine.client().images.get(tag).attrs["Size"] == 0
    assert engine.remove_images() == 1
    assert engine.images() == []


def test_an_engine_that_does_not_answer_is_told(tmp_path: Path) -> None:
    code = "from chaos.sandbox.backends import candidates; print(candidates('docker')[0].able().sandbox)"
    env = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/{uuid.uuid4().hex}"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    why, remedy = "No such file or directory", "install docker.io and start dockerd, or set DOCKER_HOST"
    assert done.stdout == f"no Docker engine answers ({why}); {remedy}\n"
