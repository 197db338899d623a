"""Disks and strace of an ordinary user who may use Docker: a helper container is root for the few steps that need it.

The user here has no namespaces and may trace nobody: on hosted runners AppArmor and yama see to it, a filter here.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable

import pytest

from chaos.errors import HarnessError
from chaos.sandbox import disk
from chaos.sandbox.docker import SOCKET, DockerBackend, engine, helper
from tests.sandbox.test_backends import nobody  # noqa: F401 (a fixture)

lacks = DockerBackend().able().sandbox or disk.missing("ext4")
needs_docker = pytest.mark.skipif(bool(lacks), reason=lacks)

Run = Callable[..., subprocess.CompletedProcess[str]]

PLAIN = """
import ctypes, json, os, platform, signal, struct, subprocess, sys, time
from pathlib import Path

def forbid(*numbers):
    # A seccomp filter: the system calls with these numbers fail with EPERM, in all that we start, too.
    jumps = [(0x15, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
    code = [(0x20, 0, 0, 0), *jumps, (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x50001)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    class Fprog(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    libc = ctypes.CDLL(None, use_errno=True)
    filled = Fprog(len(code), ctypes.addressof(program))
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, ctypes.byref(filled), 0, 0) == 0, ctypes.get_errno()  # PR_SET_SECCOMP

UNSHARE, PTRACE = {"x86_64": (272, 101), "aarch64": (97, 117)}[platform.machine()]
forbid(UNSHARE, PTRACE)
from tests import toy
from chaos import leftovers
from chaos.campaign import Runner
from chaos.explorers.fixed import Fixed
from chaos.faults.disk_full import DiskFull
from chaos.faults.power_loss import PowerLoss
from chaos.sandbox import disk, strace
from chaos.sandbox.docker import engine
from chaos.sandbox.process import able

AT = Fixed((1,), ("after_act",))
folder = Path(os.environ["TMPDIR"], f"results-{os.getpid()}")
folder.mkdir()

def mounts():
    return leftovers.mounts_below(Path(os.environ["TMPDIR"]))

def loops():
    files = [file.read_text().strip() for file in Path("/sys/block").glob("loop*/loop/backing_file")]
    return [file for file in files if file.startswith(os.environ["TMPDIR"])]

def containers():
    return [one.name for one in engine.client().containers.list(all=True, ignore_removed=True,
        filters={"label": engine.LABEL}) if one.attrs["Config"]["Labels"][engine.LABEL] in owners]
owners = [engine.owner()]
"""

LANDING = (
    PLAIN
    + """
assert strace._refusal(), "the filter has no effect"
runner = Runner(folder, "campaign", 7)
specs = (toy.spec(PowerLoss(), AT), toy.spec(PowerLoss("xfs"), AT, "xfs"), toy.spec(DiskFull(), AT))
cells = [runner.run_cell(cell) for cell in toy.cells(toy.scenario(*specs))]
runner.close()
runs = [[run.fault, run.backend, run.verdict, [one.how for one in run.landed], run.error] for run in toy.runs(folder)]
print(json.dumps([[cell.skipped for cell in cells], runs, mounts() + loops(), containers()]))
"""
)

ENDED = (
    PLAIN
    + """
if "harness" in sys.argv:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    runner = Runner(folder, "campaign", 7)
    try:
        for cell in toy.cells(toy.scenario(toy.spec(PowerLoss(), AT))):
            runner.run_cell(cell)
    finally:
        runner.close()
        leftovers.sweep_own()
    sys.exit("it was not interrupted")
harness = subprocess.Popen([sys.executable, "-c", os.environ["CODE"], "harness"], stderr=open(folder / "said", "wb"))
owners.append(f"{leftovers.PREFIX}{harness.pid}")
deadline = time.monotonic() + 60
while len([point for point in mounts() if "-trial-" not in point]) < 2:  # of a run
    assert harness.poll() is None and time.monotonic() < deadline, (folder / "said").read_text()
    time.sleep(0.01)
harness.send_signal(int(sys.argv[1]))
harness.wait()
before = mounts()
if int(sys.argv[1]) == signal.SIGKILL:
    Runner(folder, "next", 1).close()
folders = [*map(str, folder.parent.glob("chaos-*"))]
print(json.dumps([harness.returncode, before, mounts() + loops(), containers(), folders]))
"""
)


@pytest.fixture
def user(nobody: Run) -> Callable[..., str]:  # noqa: F811
    """Return what runs code as an ordinary user of Docker, and gives what it printed."""

    def run(code: str, *arguments: str) -> str:
        done = nobody("-c", f"import os; os.environ['CODE'] = code = {code!r}\nexec(code)", *arguments,
                      groups=str(SOCKET.stat().st_gid))  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@needs_docker
def test_power_loss_and_disk_full_land_for_a_user_of_docker(user: Callable[..., str]) -> None:
    skipped, runs, mounts, containers = json.loads(user(LANDING))
    assert skipped == ["", "", ""]
    assert [(fault, backend, error) for fault, backend, _, _, error in runs] == [
        ("power_loss", "process", ""), ("xfs", "process", ""), ("disk_full", "process", ""),
    ]  # fmt: skip
    assert [how for *_, how, _ in runs] == [
        ["power cut on ext4"], ["power cut on xfs"], ["no space was left for a call of the agent"],
    ]  # fmt: skip
    assert (mounts, containers) == ([], [])


@needs_docker
@pytest.mark.parametrize("number", [2, 9], ids=["Ctrl-C", "SIGKILL, and the next campaign"])
def test_an_ended_campaign_leaves_no_mount_and_no_container(user: Callable[..., str], number: int) -> None:
    status, before, mounts, containers, folders = json.loads(user(ENDED, str(number)))
    assert status != 0
    assert (len(before) >= 1) == (number == 9)
    assert (mounts, containers, folders) == ([], [], [])


@needs_docker
def test_without_docker_it_names_both_remedies(nobody: Run) -> None:  # noqa: F811
    said = nobody("-c", f"{PLAIN}\nprint(disk.missing('ext4'), strace.missing(), sep='\\n')").stdout
    image, ptrace = said.splitlines()
    assert image.startswith("mounting an ext4 image needs root") and image.endswith("or run it as root")
    assert ptrace.startswith("strace cannot be attached") and "run as root, or allow it" in ptrace
    assert all("usermod -aG docker USER" in reason for reason in (image, ptrace))


@needs_docker
def test_what_the_helper_s_root_is_refused_is_said() -> None:
    with pytest.raises(HarnessError, match=r"^umount /nonexistent failed: umount: /nonexistent: no mount point"):
        helper.command("umount", "/nonexistent")
    name = helper._container(os.getpid())
    engine.remove_container(name)  # as the end of a campaign does
    assert helper.command("id", "--user") == "0\n"
    engine.sweep_own()


@needs_docker
def test_a_machine_on_which_we_are_somebody_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process with our number may not be us: nothing may be mounted there."""
    monkeypatch.setattr(helper.os, "readlink", lambda path: "mnt:[1]")
    helper._container.cache_clear()
    assert "does not see this process" in helper.missing()
    monkeypatch.undo()
    helper._container.cache_clear()
