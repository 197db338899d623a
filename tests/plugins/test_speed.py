"""Derived runs through the real door: options, what is told of them, replays, workers, interrupts."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.project import Done, Project
from tests.plugins.test_interrupted import family, nothing_left
from tests.waiting import until

SCENARIO = """\
version: 1
scenario: speed
target: {planted: {bug: effect_without_key}}
strategies: [loop]
faults:
  - {kind: kill, at: {step: every, phase: every, after: 11, before: 15}}
  - {kind: kill, name: few, at: {step: [11, 12], phase: after_act}}
"""
LOOP = """\
version: 1
scenario: loop
target: {planted: {steps: 16}}
strategies: [loop]
faults: [{kind: kill, at: {step: every, phase: every}}]
"""
FEW, MANY = "loop-few", "loop-kill"


def rows(project: Project, folder: str, name: str = "results.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (project.folder / folder / name).read_text().splitlines()]


def verdicts(runs: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    return sorted((run["fault"], run["run"], run["plan"], run["verdict"], tuple(run["broke"])) for run in runs)


def how(runs: list[dict[str, Any]], fault: str) -> Counter[str]:
    return Counter(run["how"] for run in runs if run["fault"] == fault)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("speed") / "project")
    made.write("speed.chaos.yaml", SCENARIO)
    return made


COMMON = ("--chaos", "--chaos-seed", "7")
CALLS = {
    "auto": (*COMMON, "--chaos-results", "auto"),
    "verified": (
        *COMMON, "--chaos-results", "verified", "--chaos-speed", "fast", "--chaos-verify-fast", "--chaos-fault", "few",
    ),
    "real": (*COMMON, "--chaos-results", "real", "--chaos-speed", "real", "--chaos-fault", "few"),
    "wrong": (*COMMON, "--chaos-results", "wrong", "--chaos-speed", "fats"),
}  # fmt: skip


@pytest.fixture(scope="module")
def done(project: Project) -> dict[str, Done]:
    return dict(zip(CALLS, project.run_all(*CALLS.values()), strict=True))


def test_a_speed_that_there_is_not_is_an_error_that_names_the_nearest(project: Project, done: dict[str, Done]) -> None:
    assert done["wrong"].code == 4, done["wrong"].out
    assert "--chaos-speed: there is no speed 'fats'; did you mean 'fast'?" in done["wrong"].out
    assert not (project.folder / "wrong").exists()


def test_auto_derives_large_cells_only(project: Project, done: dict[str, Done]) -> None:
    assert done["auto"].code == 1, done["auto"].out
    runs = rows(project, "auto")
    many = how(runs, "kill")
    assert many.total() == 25 and many["killed"] == 2 and many["derived"] and many["equal"]
    assert how(runs, "few") == {"killed": 2}
    cells = {cell["fault"]: cell["real_because"] for cell in rows(project, "auto", "cells.jsonl")}
    assert cells == {"kill": "", "few": "too few runs to record one for them (2; from 24 on)"}


def test_every_way_comes_to_the_same_verdicts(project: Project, done: dict[str, Done]) -> None:
    few = [run for run in rows(project, "auto") if run["fault"] == "few"]
    assert verdicts(rows(project, "verified")) == verdicts(rows(project, "real")) == verdicts(few)
    assert done["verified"].code == done["real"].code == 1
    assert how(rows(project, "real"), "few") == {"killed": 2}
    assert how(rows(project, "verified"), "few") == {"killed": 1, "derived": 1}
    assert len(list((project.folder / "verified/runs/speed/loop/few").glob("*/real/journal.jsonl"))) == 2


def test_it_is_told_how_the_runs_were_made(project: Project, done: dict[str, Done]) -> None:
    runs = [run for run in rows(project, "auto") if run["fault"] == "kill"]
    distinct, made = sum(not run["like"] for run in runs), how(runs, "kill")
    line = (
        f"25 crash points, {distinct} distinct, all covered: 2 killed for real, "
        f"{made['derived']} resumed from captured crash states, {made['equal']} equal to one of these"
    )
    assert line in " ".join(done["auto"].out.split())
    assert line in (project.folder / "auto/report.html").read_text()
    assert "crash points" not in done["real"].out


def test_a_failure_of_a_derived_run_is_replayed_for_real(project: Project, done: dict[str, Done]) -> None:
    failures = [run for run in rows(project, "auto") if run["broke"] and run["how"] != "killed"]
    assert failures, "none was derived, so this test shows nothing"
    failure = failures[0]
    again = project.replay(failure["replay"])
    (run,) = again.runs
    assert again.code == 1 and run["how"] == "killed"
    assert [run[name] for name in ("plan", "verdict", "broke", "seed")] == [
        failure[name] for name in ("plan", "verdict", "broke", "seed")
    ]
    assert run["landed"][0]["evidence"]["status"] == -9


def test_workers_that_share_a_cell_come_to_the_same_verdicts(project: Project, done: dict[str, Done]) -> None:
    options = (*COMMON, "-n", "2", "--chaos-parts", "2", "--chaos-speed", "fast", "--chaos-results", "spread")
    spread = project.run(*options, "--chaos-fault", "kill", results="spread")
    assert spread.code == 1, spread.out
    assert verdicts(spread.runs) == [row for row in verdicts(rows(project, "auto")) if row[0] == "kill"]
    assert how(spread.runs, "kill")["killed"] == 2 and len(spread.cells) == 2, "one of each part is real"
    assert re.search(r"25 crash points, \d+ distinct, all covered: 2 killed for real", " ".join(spread.out.split()))
    assert project.sandboxes() == []


LIES = """
import pytest
from chaos.capture.shelf import Shelf

put_back = Shelf.put_back

def torn(self, capture):
    written = put_back(self, capture)
    (self.root / "durable" / "checkpoint.json").unlink(missing_ok=True)
    return written

Shelf.put_back = torn
"""


def test_a_capture_that_is_not_true_fails_the_campaign(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.write("speed.chaos.yaml", SCENARIO.replace("effect_without_key", "none"))
    project.write("conftest.py", LIES)
    done = project.run(*COMMON, "--chaos-speed", "fast", "--chaos-fault", "few")
    assert done.code == 1 and [cell["verdict"] for cell in done.cells] == ["harness error"], done.out
    told = " ".join(done.out.split())
    assert re.search(r"derived from a captured crash state this run is .*killed for real it is recovered", told), told
    assert "use --chaos-speed real" in told


# -- interrupts


def recorded(project: Project) -> int:
    """Return the bytes of the recorded run's journal."""
    found = list(project.folder.glob(".chaos/runs/reference/*/recorded-*/journal.jsonl"))
    return sum(path.stat().st_size for path in found)


def finished(project: Project) -> int:
    path = project.folder / ".chaos/results.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.parametrize("moment", ["while it is recorded", "while runs are derived"])
def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, moment: str) -> None:
    project = Project(tmp_path / "project")
    project.write("loop.chaos.yaml", LOOP)
    process = project.start(*COMMON, "--chaos-speed", "fast")
    until(lambda: recorded(project) > 20_000 if "recorded" in moment else finished(project) >= 3)
    pids = family(process.pid)
    assert any("captures-" in name for name in project.sandboxes()), "nothing is there, so this test shows nothing"
    os.killpg(process.pid, signal.SIGINT)
    done = project.end(process)
    assert done.code == 2 and "INTERNALERROR" not in done.out, done.out
    assert nothing_left(project, pids)
    assert len(done.runs) == finished(project) and (moment == "while it is recorded") == (not done.runs)
