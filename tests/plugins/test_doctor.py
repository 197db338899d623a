"""`pytest-chaos doctor`: as whoever runs the tests, as an ordinary user with Docker and without, and what it cleans."""

from __future__ import annotations

import dataclasses
import json
import os
import uuid
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

from chaos import registry
from chaos.plugins import command_line, doctor
from chaos.sandbox import Able, backends
from chaos.sandbox.docker import SOCKET, DockerBackend, engine
from tests.sandbox.test_backends import nobody as nobody

Nobody = Callable[..., CompletedProcess[str]]
LACKS = DockerBackend().able().sandbox
needs_docker = pytest.mark.skipif(bool(LACKS), reason=LACKS or "-")

DOWN = "no engine"
SHORT = {
    "powers": {"process": {"sandbox": "", "OOM kill": "no cgroup"}, "docker": {"sandbox": DOWN, "OOM kill": DOWN}},
    "programs": {"redis": "", "criu": "CRIU has to be run by root"},
    "faults": {"kill": {"process": "", "docker": DOWN}, "oom_kill": {"process": "no cgroup", "docker": DOWN}},
    "strategies": {"cow": {"process": "", "docker": DOWN}},
    "main": {"cow x oom_kill": "no cgroup", "delta x oom_kill": "no cgroup"},
}


@pytest.fixture(scope="module")
def found() -> doctor.Examination:
    """What is found here."""
    return doctor.examine()


def test_every_power_fault_strategy_and_server_is_there(found: doctor.Examination) -> None:
    names = [field.name for field in dataclasses.fields(Able) if field.name not in doctor.NO_REASON]
    for backend in backends.NAMES[1:]:
        assert len(found.powers[backend]) == len(names) + len(doctor.FILE_SYSTEMS) - 1
    assert sorted(found.faults) == registry.names("faults")
    assert set(registry.names("strategies")) <= set(found.strategies)
    assert {*registry.names("servers"), "docker", "criu", "toxiproxy-server"} == set(found.programs)
    for by in (*found.faults.values(), *found.strategies.values()):
        assert list(by) == ["process", "docker"]


def test_it_says_what_the_back_ends_say(found: doctor.Examination) -> None:
    for backend in backends.candidates(backends.AUTO):
        able, name = backend.able(), backend.name
        assert found.powers[name]["OOM kill"] == able.memory_limit
        assert found.faults["oom_kill"][name] == able.sandbox or able.memory_limit
        assert found.faults["evict"][name] == able.sandbox or able.hostname
        for strategy in ("full_snapshot", "semantic"):
            made = registry.load("strategies", strategy)()
            assert found.strategies[strategy][name] == (able.sandbox or made.missing() or backend.unsuited(made))
    assert bool(found.main) == any(all(found.faults[fault].values()) for fault in doctor.MAIN_FAULTS), (
        "the strategies of the main job need nothing, so it is the faults"
    )


def test_variants_that_need_something_else_have_a_line_of_their_own(found: doctor.Examination) -> None:
    assert "full_snapshot: {database: postgres}" in found.strategies
    assert "cow: {snapshots: overlay}" in found.strategies
    assert "chat_history: {write: rewrite}" not in found.strategies
    assert "full_snapshot: {database: sqlite}" not in found.strategies


def test_the_text_tells_each_reason_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.render(doctor.Examination(**SHORT)) == [
        "back end process",
        "  sandbox   can",
        "  OOM kill  cannot  no cgroup",
        "",
        "back end docker",
        "  sandbox  cannot  no engine",
        "",
        "servers and tools",
        "  redis  can",
        "  criu   cannot  CRIU has to be run by root",
        "",
        "faults",
        "  kill      can     process",
        "  oom_kill  cannot  no cgroup",
        "",
        "strategies",
        "  cow  can     process",
        "",
        "the main job cannot run:",
        "  cow x oom_kill, delta x oom_kill: no cgroup",
    ]
    able = {**SHORT, "powers": {name: {"sandbox": ""} for name in ("process", "docker")}, "main": {}}
    text = doctor.render(doctor.Examination(**able))
    assert "  kill      can     process; not docker: no engine" in text
    assert "  oom_kill  cannot  not process: no cgroup; not docker: no engine" in text
    faults, strategies = "kill, oom_kill, evict, rate_limit, corrupt_delta", "chat_history, full_snapshot, delta, cow"
    assert text[-1] == f"the main job can run: {faults} on {strategies}"


def test_the_exit_code_says_whether_the_main_job_can_run(
    found: doctor.Examination, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda: found)
    assert command_line.main(["doctor", "--format", "json"]) == (1 if found.main else 0)
    told = json.loads(capsys.readouterr().out)
    assert told == {"v": 1, **json.loads(json.dumps(dataclasses.asdict(found))), "main_job": not found.main}
    assert command_line.main(["doctor"]) == (1 if found.main else 0)
    assert capsys.readouterr().out.startswith("back end process\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a memory cgroup without further ado")
def test_root_can_run_the_main_job(found: doctor.Examination) -> None:
    if reason := found.powers["process"]["OOM kill"]:
        pytest.skip(reason)
    assert found.main == {}


@needs_docker
def test_an_ordinary_user_can_run_it_through_docker(nobody: Nobody) -> None:
    done = nobody("-m", "chaos", "doctor", "--format", "json", groups=str(SOCKET.stat().st_gid))
    told = json.loads(done.stdout)
    assert (done.returncode, told["main_job"], told["main"]) == (0, True, {}), done.stderr
    assert told["faults"]["oom_kill"]["docker"] == "" != told["faults"]["oom_kill"]["process"]


@needs_docker
def test_an_ordinary_user_without_docker_is_told_the_remedies(nobody: Nobody) -> None:
    done = nobody("-m", "chaos", "doctor")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "  sandbox  cannot  this user may not use Docker's socket; as root: usermod -aG docker USER" in done.stdout
    last = done.stdout.splitlines()[-1]
    assert last.startswith(
        "  chat_history x oom_kill, full_snapshot x oom_kill, delta x oom_kill, cow x oom_kill: process:"
    )
    assert "then set CHAOS_CGROUP" in last


@needs_docker
def test_clean_removes_the_image(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    mine = f"chaos-test-{uuid.uuid4().hex}"  # others may be at work with the real one
    monkeypatch.setattr(engine, "REPOSITORY", mine)
    monkeypatch.setattr(engine, "IMAGE", mine)
    engine.image()
    assert command_line.main(["doctor", "--clean"]) == 0
    assert engine.images() == [] and "images removed: 1;" in capsys.readouterr().out
    assert command_line.main(["doctor", "--clean"]) == 0 and "images removed: 0;" in capsys.readouterr().out
