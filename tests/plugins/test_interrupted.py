"""Campaigns that are ended from outside: what was finished stays, and nothing else does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from chaos.leftovers import PREFIX
from tests.plugins.project import Done, Project, cgroups, scenario
from tests.waiting import until

FOLDER = Path(".chaos")


def begin(project: Project, *options: str, runs: int = 1, of: int = 40) -> subprocess.Popen[str]:
    """Start a long campaign and return once *runs* of its runs have ended."""
    project.write("long.chaos.yaml", scenario("long", runs=of))
    process = project.start("--chaos", "--chaos-seed", "7", *options)
    results = project.folder / FOLDER / "results.jsonl"
    until(lambda: results.exists() and results.read_bytes().count(b"\n") >= runs)
    return process


def family(pid: int) -> set[int]:
    """Return *pid* and its children: the workers of pytest-xdist are harnesses, too."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return {pid, *map(int, children.read_text().split())} if children.exists() else {pid}


def nothing_left(project: Project, pids: set[int]) -> bool:
    left = {"agents": project.agents(), "cgroups": cgroups(pids), "sandboxes": project.sandboxes()}
    print(f"left: {left}")  # shown if the test fails
    return not any(left.values())


def kept(done: Done) -> None:
    """Assert that *done* was interrupted and has everything that a campaign leaves."""
    assert done.code == 2 and "KeyboardInterrupt" in done.out, done.out
    assert done.runs and all(run["v"] == 1 and run["landed"] for run in done.runs)
    assert done.report.exists() and f"report: {done.report}" in done.out
    assert re.search(r"ended early: 1 of 1 cells were not judged", done.out)


@pytest.mark.parametrize("group", [False, True], ids=["pytest alone", "the whole group, as a terminal does"])
def test_interrupted_campaigns_keep_what_they_have(project: Project, group: bool) -> None:
    process = begin(project)
    pids = family(process.pid)
    (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    done = project.end(process)
    assert nothing_left(project, pids)
    kept(done)


def test_interrupted_workers_keep_what_they_have(project: Project) -> None:
    process = begin(project, "-n", "2")
    pids = family(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    done = project.end(process)
    assert done.code == 2 and done.runs and done.report.exists(), done.out
    until(lambda: nothing_left(project, pids))


def test_interrupted_before_the_first_run_ends(project: Project) -> None:
    project.write("long.chaos.yaml", scenario("long", runs=200))
    project.write(".chaos/report.html", "of a campaign before")
    process = project.start("--chaos", "--chaos-speed", "real")
    until((project.folder / FOLDER / "campaign.json").exists)
    # Then all is imported: an interrupt that falls into an import may be lost.
    until(lambda: any(project.tmp.glob("chaos-*/sandbox")), "the sandbox of a reference run is there")
    os.kill(process.pid, signal.SIGINT)
    done = project.end(process)
    assert done.code == 2 and "INTERNALERROR" not in done.out, done.out
    assert "no cell was run" in done.out and "ended early: 1 of 1 cells" in done.out and done.runs == []
    assert done.report.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert nothing_left(project, {process.pid})


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "workers"])
def test_what_a_killed_campaign_left_is_swept_by_the_next(project: Project, options: tuple[str, ...]) -> None:
    process = begin(project, *options)
    pids = family(process.pid)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    until(lambda: not project.agents())  # nobody is left to order that
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))  # orphans are reaped by pid 1
    assert project.sandboxes(), "nothing was left, so this test shows nothing"
    project.write("long.chaos.yaml", scenario("long", runs=1))
    done = project.run("--chaos", *options)
    assert done.code == 0 and nothing_left(project, pids)


def test_sandboxes_of_the_living_are_not_swept(project: Project) -> None:
    living = project.tmp / f"{PREFIX}{os.getpid()}-living"
    living.mkdir()
    (project.tmp / "chaos-monkey-notes").mkdir()  # not ours
    project.write("kill.chaos.yaml", scenario(runs=1))
    assert project.run("--chaos").code == 0
    assert project.sandboxes() == [living.name, "chaos-monkey-notes"]
