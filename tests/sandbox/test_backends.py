"""The back ends by name, which one a cell runs on, and that the verdict does not depend on it."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import langgraph.graph
import msgspec
import pytest

import chaos
from chaos import registry
from chaos.campaign import Cell, Runner
from chaos.explorers.fixed import Fixed
from chaos.faults.corrupt_delta import CorruptDelta
from chaos.faults.evict import Evict
from chaos.faults.kill import Kill
from chaos.faults.oom_kill import OomKill
from chaos.faults.rate_limit import RateLimit
from chaos.leftovers import PREFIX
from chaos.plugins import settings
from chaos.results import RunResult
from chaos.sandbox import Able, Backend, Sandbox, backends
from chaos.sandbox.backends import ProcessBackend
from chaos.sandbox.docker import SOCKET, DockerBackend
from chaos.sandbox.docker.sandbox import DockerSandbox
from chaos.sandbox.process import ProcessSandbox
from chaos.scenario import StrategySpec
from chaos.targets.reference import Reference
from tests import toy
from tests.plugins.project import Project, scenario
from tests.waiting import until

NOBODY = 65534
LACKS = DockerBackend().able().sandbox or DockerBackend().able().memory_limit
needs_docker = pytest.mark.skipif(bool(LACKS), reason=LACKS or "-")
needs_both = pytest.mark.skipif(bool(ProcessBackend().able().memory_limit), reason=ProcessBackend().able().memory_limit)


CHECKS = ("state", "files", "processes", "environment", "effects", "goal", "budget", "finishes", "corruption")


# -- names and choice


@pytest.mark.parametrize(
    ("protocol", "kind"),
    [(Sandbox, ProcessSandbox), (Sandbox, DockerSandbox), (Backend, ProcessBackend), (Backend, DockerBackend)],
)
def test_a_back_end_keeps_the_protocols(protocol: type, kind: type) -> None:
    for name, wanted in vars(protocol).items():
        if not name.startswith("_"):
            has = getattr(kind, name)
            if inspect.isfunction(wanted):
                wants = list(inspect.signature(wanted).parameters)
                assert list(inspect.signature(has).parameters)[: len(wants)] == wants, name


@pytest.mark.parametrize("backend", backends.candidates(backends.AUTO), ids=lambda one: one.name)
def test_a_back_end_is_a_value(backend: Backend) -> None:
    assert backend == type(backend)() and hash(backend) == hash(type(backend)())
    assert isinstance(backend.able(), Able)


def test_candidates_are_in_the_order_of_preference() -> None:
    assert [one.name for one in backends.candidates("auto")] == ["process", "docker"]
    assert [[one.name for one in backends.candidates(name)] for name in backends.NAMES[1:]] == [["process"], ["docker"]]


@needs_docker
def test_strategies_with_a_half_outside_are_not_for_containers() -> None:
    for name in registry.names("strategies"):
        strategy = registry.load("strategies", name)()
        assert bool(DockerBackend().unsuited(strategy)) == strategy.outside, name
    assert not DockerBackend().unsuited(registry.load("strategies", "cow")())
    reason = DockerBackend().unsuited(registry.load("strategies", "cow")(snapshots="overlay"))
    assert reason == "Cow works on zones and processes of this machine, not of a container; use --chaos-backend process"


@needs_docker
def test_the_first_back_end_that_lacks_nothing_is_chosen() -> None:
    both = backends.candidates("auto")
    process = both[0].able()
    strategy = toy.Keeps()
    assert backends.choose(both, strategy, lambda able: "")[0].name == "process"
    assert backends.choose(both, strategy, lambda able: "no" if able is process else "")[0].name == "docker"
    chosen, reason = backends.choose(both, strategy, lambda able: "no" if able is process else "neither")
    assert (chosen.name, reason) == ("process", "process: no; docker: neither")
    outside = registry.load("strategies", "semantic")()
    reason = backends.choose(both, outside, lambda able: "no" if able is process else "")[1]
    assert reason.startswith("process: no; docker: Semantic works on")


@needs_docker
def test_powers_that_nobody_built_for_containers_are_not_there() -> None:
    able = DockerBackend().able()
    assert (able.process_tree, able.hostname, able.memory_limit) == ("", "", "")
    assert able.memory_controller in ("v1", "v2")
    for reason in (able.clock, able.ptrace, able.syscalls, able.shared_disk, able.disk_image("ext4")):
        assert reason == "not in a container; use --chaos-backend process"


# -- the same verdicts

AT = Fixed((1,), ("after_act",))
FIVE = (
    toy.spec(Kill(), AT),
    toy.spec(OomKill(), AT),
    toy.spec(Evict(grace=0.1), AT),
    toy.spec(RateLimit(), Fixed((1,), ("before_think",))),
    toy.spec(CorruptDelta(), Fixed((1,), ("after_commit",))),
)


def outcome(run: RunResult) -> tuple[Any, ...]:
    """Return what of a run must not depend on the back end."""
    landed = [(each.fault, each.at, each.how) for each in run.landed]
    return run.verdict, run.broke, landed, run.attempts, run.steps, run.rpo_steps, run.tokens, run.storage.stored


def both_ways(folder: Path, cells: list[Cell]) -> None:
    """Run *cells* in both back ends, and see that all comes out the same."""
    found = {}
    for name in ("process", "docker"):
        (folder / name).mkdir()
        runner = Runner(folder / name, "campaign", toy.SEED, backend=name)
        skipped = [runner.run_cell(cell).skipped for cell in cells]
        runner.close()
        assert not any(skipped), skipped
        found[name] = toy.runs(folder / name)
        assert {run.backend for run in found[name]} == {name}
        assert all(run.landed for run in found[name]), [run.error or run.missed for run in found[name]]
        assert all(("--chaos-backend docker" in run.replay) == (name == "docker") for run in found[name])
    for one, other in zip(*found.values(), strict=True):
        assert outcome(one) == outcome(other), (one.strategy, one.fault, one.checks, other.checks)


@needs_docker
@needs_both
def test_the_reference_agent_comes_out_the_same(tmp_path: Path) -> None:
    """With its shell, its repository and its background engine: each fault once, on two kinds of store."""
    target, steps = Reference(steps=12), (5, 6, 7, 8, 8)
    specs = [replace(spec, at=replace(spec.at, steps=(step,))) for spec, step in zip(FIVE, steps, strict=True)]
    kill, oom_kill, evict, rate_limit, corrupt_delta = specs
    pairs = {"full_snapshot": (oom_kill,), "chat_history": (kill, evict, rate_limit, corrupt_delta)}
    made = toy.scenario(*specs, target=target, checks=CHECKS)
    both_ways(
        tmp_path,
        [
            Cell(made, StrategySpec(name, name, target.strategy(name, {})), spec)
            for name, specs in pairs.items()
            for spec in specs
        ],
    )


# -- an ordinary user on a hosted runner

ORDINARY = """
import ctypes, json, os, platform, struct, sys
from pathlib import Path

def forbid_namespaces():
    # A seccomp filter, as AppArmor does on hosted runners: unshare(2) is refused.
    number = {"x86_64": 272, "aarch64": 97}[platform.machine()]
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    class Fprog(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    libc = ctypes.CDLL(None, use_errno=True)
    filled = Fprog(len(code), ctypes.addressof(program))
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, ctypes.byref(filled), 0, 0) == 0, ctypes.get_errno()  # PR_SET_SECCOMP

forbid_namespaces()
from tests import toy
from tests.sandbox.test_backends import FIVE
from chaos.campaign import Runner
from chaos.sandbox.process import able

assert able().memory_limit and able().hostname and able().process_tree, able()
folder = Path(os.environ["TMPDIR"], "results")
folder.mkdir()
runner = Runner(folder, "campaign", 7)
cells = [runner.run_cell(cell) for cell in toy.cells(toy.scenario(*FIVE))]
runner.close()
print(os.getuid(), json.dumps({cell.fault: cell.skipped for cell in cells}))
print(json.dumps({run.fault: [run.backend, run.verdict, len(run.landed), run.error] for run in toy.runs(folder)}))
"""


@pytest.fixture
def nobody() -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Return what runs Python code as an ordinary user with the groups given, in a folder of that user."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root with setpriv (util-linux) can become another user")
    folder = Path("/tmp") / f"chaos-nobody-{uuid.uuid4().hex}"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    paths = {str(Path(module.__file__ or "").parents[1]) for module in (chaos, msgspec, pytest)}
    paths.add(str(Path(next(iter(langgraph.graph.__path__))).parents[1]))
    variables = {"PATH": os.defpath, "TMPDIR": folder, "HOME": folder, "PYTHONPATH": ":".join(sorted(paths)),
                 "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
    env = ["env", "-i", *(f"{name}={value}" for name, value in variables.items())]

    def run(*arguments: str, groups: str = "") -> subprocess.CompletedProcess[str]:
        drop = [
            "setpriv",
            f"--reuid={NOBODY}",
            f"--regid={NOBODY}",
            f"--groups={groups}" if groups else "--clear-groups",
        ]
        for python in (sys.executable, "/usr/bin/python3"):
            command = [*drop, *env, python]
            trial = [*command, "-c", "import chaos.journal, docker, pytest"]
            if subprocess.run(trial, capture_output=True, cwd="/", check=False).returncode == 0:
                return subprocess.run([*command, *arguments], capture_output=True, text=True, cwd="/", check=False)
        pytest.skip("no Python interpreter with our packages that an unprivileged user may run")

    yield run
    shutil.rmtree(folder)


@needs_docker
def test_nothing_is_skipped_for_a_user_of_docker_without_namespaces_and_cgroups(
    nobody: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = nobody("-c", ORDINARY, groups=str(SOCKET.stat().st_gid))
    assert done.returncode == 0, done.stdout + done.stderr
    user, cells, runs = done.stdout.split(maxsplit=1)[0], *done.stdout.split(maxsplit=1)[1].splitlines()
    assert user == str(NOBODY)
    assert set(json.loads(cells).values()) == {""}
    found = json.loads(runs)
    assert {fault: backend for fault, (backend, *_) in found.items()} == {
        "kill": "process", "oom_kill": "docker", "evict": "docker", "rate_limit": "process", "corrupt_delta": "process",
    }  # fmt: skip
    assert all(landed == 1 and not error for _, _, landed, error in found.values()), found


# -- interrupted


@needs_docker
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "SIGKILL, and the next campaign"])
def test_an_ended_campaign_leaves_no_container_and_no_volume(tmp_path: Path, number: int) -> None:
    project = Project(tmp_path / "project")
    project.write("long.chaos.yaml", scenario("long", strategies="[chat_history]", runs=40))
    process = project.start("--chaos", "--chaos-backend", "docker")
    until(lambda: [name for name in made_by(process.pid) if name.startswith("container")])
    os.kill(process.pid, number)
    process.communicate(timeout=90)
    if number == signal.SIGKILL:
        assert len(made_by(process.pid)) == 2
        Runner(tmp_path, "next", 1).close()
    assert made_by(process.pid) == [] and project.sandboxes() == (
        [] if number == signal.SIGINT else project.sandboxes()
    )


def made_by(pid: int) -> list[str]:
    from chaos.sandbox.docker import engine

    client, label = engine.client(), {"label": f"{engine.LABEL}={PREFIX}{pid}"}
    containers = client.containers.list(filters=label, ignore_removed=True)  # running ones
    return [*(f"container {one.name}" for one in containers), *(one.name for one in client.volumes.list(filters=label))]


def test_an_unknown_back_end_is_a_wrong_option(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in backends.NAMES:
        monkeypatch.setattr(pytestconfig.option, "chaos_backend", name)
        assert settings.read(pytestconfig).backend == name
    monkeypatch.setattr(pytestconfig.option, "chaos_backend", "dokcer")
    with pytest.raises(pytest.UsageError, match="--chaos-backend: no back end 'dokcer'; did you mean 'docker'"):
        settings.read(pytestconfig)
