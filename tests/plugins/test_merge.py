"""`pytest-chaos merge`: four machines as the documentation has them, and folders that do not belong together."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ruamel.yaml import YAML

from chaos import journal, results
from chaos.plugins.command_line import main
from chaos.results import CampaignInfo, CellResult, Minimal, RunResult
from chaos.shards import Planned, PlannedCell
from chaos.verdict import PASS, CellVerdict
from tests.plugins.project import Project, scenario

PAGE = Path(__file__).parents[2] / "docs/how-to/ci.md"

# ----- the machines of the documentation

EXPECTED = """\
expected_failures:
  - {strategy: restart, fault: kill, breaks: [recovery], may_break: [effects, budget], because: control}
"""
EVERY = "{kind: kill, at: {step: every, phase: before_act}}"
"""Twelve runs, of which those at the first steps lose little: not every part breaks what must break in some run."""
REFUSED = "{kind: rate_limit, name: refused, requests: 1, retry_after: 10ms, at: {step: 3, phase: before_think}}"


def workflow() -> dict[str, Any]:
    """Return the CI jobs of the page."""
    (text,) = re.findall(r'```yaml title="chaos-shards.yml"\n(.*?)```', PAGE.read_text(), re.DOTALL)
    jobs: dict[str, Any] = YAML(typ="safe").load(text)["jobs"]
    return jobs


def commands(job: str) -> list[str]:
    """Return what the machine of *job* runs, but for the installation."""
    lines = [step["run"] for step in workflow()[job]["steps"] if "run" in step]
    return [line for line in lines if not line.startswith("pip ")]


def machine(folder: Path, line: str, **values: str) -> subprocess.CompletedProcess[str]:
    """Run *line* of a CI job in *folder*, with our scripts at hand; *values* are of its expressions, by last word."""
    line = re.sub(r"\$\{\{ *(?:\w+\.)*(\w+) *\}\}", lambda found: shlex.quote(values[found[1]]), line)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("CHAOS_", "PYTEST_"))}
    env |= {
        "PATH": f"{Path(sys.executable).parent}:{env['PATH']}",
        "PYTEST_XDIST_AUTO_NUM_WORKERS": "0",  # starting workers takes longer than these runs
        "PYTEST_ADDOPTS": "-p no:langsmith_plugin -p no:anyio -p no:hypothesispytest -p no:faker",
        "CHAOS_SPEED": "fast",
        "COLUMNS": "120",
    }
    return subprocess.run(
        ["bash", "-ec", line], cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what each of those machines has uploaded, as its merge job finds it."""
    project = Project(tmp_path_factory.mktemp("machines") / "project")
    faults = f"[{EVERY}, {REFUSED}]"
    project.write("control.chaos.yaml", scenario("control", "[restart]", faults, more=EXPECTED))
    (line,) = commands("chaos")
    for group in workflow()["chaos"]["strategy"]["matrix"]["group"]:
        done = machine(project.folder, line, group=str(group), run_id="7")
        assert done.returncode == 0, done.stdout + done.stderr
        # It has a part of a cell, and does not judge it.
        assert re.search(
            r"^1 of [12] cells have parts in other shards: `pytest-chaos merge` judges", done.stdout, re.MULTILINE
        )
        assert re.search(r"^unfinished restart × kill: parts [\d, ]+ of 4 are missing", done.stdout, re.MULTILINE)
        assert "ended early" not in done.stdout
        (project.folder / ".chaos").rename(project.folder.parent / f"chaos-{group}")
    found = project.folder.parent / "job" / "shards"
    found.mkdir(parents=True)
    for path in project.folder.parent.glob("chaos-*"):
        path.rename(found / path.name)
    return found


@pytest.fixture(scope="module")
def merged(shards: Path) -> Path:
    (line,) = commands("report")
    done = machine(shards.parent, line)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "merged from 4 shards (1 machine)" in done.stdout and "redone" in done.stdout
    return shards.parent / ".chaos"


def test_the_documented_machines_have_each_cell_and_part_once(shards: Path) -> None:
    folders = [results.read_parts(path) for path in sorted(shards.iterdir())]
    assert [info.shard for info, *_ in folders] == [f"{group} of 4" for group in range(1, 5)]
    ran = sorted((cell.key, cell.part, cell.parts) for _, _, cells, _ in folders for cell in cells)
    assert ran == sorted((cell.key, cell.part, cell.parts) for cell in folders[0][1].cells)
    assert len({cell[:2] for cell in ran}) == len(ran) > 4
    assert len({msgspec.json.encode([msgspec.structs.replace(cell, here=True) for cell in planned.cells])
                for _, planned, _, _ in folders}) == 1  # fmt: skip


def test_what_is_merged_is_one_campaign_judged_as_a_whole(merged: Path) -> None:
    campaign = results.read(merged)
    assert [(cell.fault, cell.runs, cell.passed, cell.expected) for cell in campaign.cells] == [
        ("kill", 12, True, True), ("refused", 1, True, False),
    ]  # fmt: skip
    assert [run.run for run in campaign.runs if run.fault == "kill"] == list(range(12))
    assert (campaign.info.seed, campaign.info.cells, campaign.unjudged, campaign.elsewhere) == (7, 2, 0, ())
    assert main(["table", str(merged)]) == 0


def test_the_report_says_how_it_was_made(merged: Path) -> None:
    page = (merged / "report.html").read_text(encoding="utf-8")
    assert "Merged from 4 shards (1 machine)" in page and "--group 3" in page
    assert len(results.read(merged).info.shards) == 4


def test_journals_are_read_where_they_are_now_also_those_that_name_others(merged: Path, shards: Path) -> None:
    """The shards are gone: nothing of theirs is needed."""
    before = {
        (run.key, run.run): journal.read(path / run.journal)
        for path in shards.iterdir()
        for run in results.read(path).runs
    }
    alone = merged.with_name("alone")
    merged.rename(alone)
    try:
        found = results.read(alone).runs
        assert {(run.key, run.run): journal.read(alone / run.journal) for run in found} == before and len(before) == 13
        assert all(journal.read(alone / run.reference) for run in found if run.fault == "kill")
        assert any(run.how == results.DERIVED for run in found), "no journal names another, so this test shows nothing"
    finally:
        alone.rename(merged)


def test_a_missing_shard_is_told(shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = [str(path) for path in sorted(shards.iterdir())]
    assert main(["merge", *there[:1], *there[2:], "-o", str(tmp_path / "out")]) == 1
    out = capsys.readouterr().out
    assert "missing: group 2 of 4; merge it too\n" in out
    assert re.search(r"^missing: restart x kill of control \(part \d of \d\)", out, re.MULTILINE)
    assert re.search(r"^incomplete: 1 of 2 cells were not judged$", out, re.MULTILINE)
    assert re.search(r"^unfinished restart × kill: parts? [\d, ]+ of \d (is|are) missing", out, re.MULTILINE)
    assert "Incomplete." in (tmp_path / "out/report.html").read_text(encoding="utf-8")


def test_what_was_merged_can_be_merged_again_and_what_is_there_twice_is_kept_once(
    shards: Path, merged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = (str(path) for path in sorted(shards.iterdir()))
    assert main(["merge", *others, "-o", str(tmp_path / "three")]) == 1
    assert main(["merge", str(tmp_path / "three"), first, first, "-o", str(tmp_path / "all")]) == 0
    assert "in two folders, with equal verdicts, and kept once: " in capsys.readouterr().out
    again, once = results.read(tmp_path / "all"), results.read(merged)
    assert [(run.key, run.run, run.plan, run.verdict) for run in again.runs] == [
        (run.key, run.run, run.plan, run.verdict) for run in once.runs
    ]
    assert again.cells == once.cells
    assert all(journal.read(tmp_path / "all" / run.journal) for run in again.runs)


def test_a_campaign_that_follows_in_the_merged_folder_takes_its_place(merged: Path, tmp_path: Path) -> None:
    shutil.copytree(merged, tmp_path / "out")
    results.write_info(tmp_path / "out", results.read(merged).info)
    assert not (tmp_path / "out" / results.SHARDS).exists() and not results.read(tmp_path / "out").plan


# ----- folders made by hand

Shard = Callable[..., str]


def run(number: int = 0, verdict: CellVerdict = CellVerdict.RECOVERED, seed: int = 70, **more: Any) -> RunResult:
    made: dict[str, Any] = {
        "campaign": "c", "scenario": "s", "strategy": "delta", "fault": "kill", "run": number, "seed": seed,
        "plan": f"kill@{number}/after_act", "planned": 1, "landed": (), "checks": {"state": PASS}, "verdict": verdict,
    }  # fmt: skip
    return RunResult(**{**made, **more})


def cell(strategy: str = "delta", **more: Any) -> CellResult:
    made: dict[str, Any] = {
        "campaign": "c", "scenario": "s", "strategy": strategy, "fault": "kill", "verdict": CellVerdict.RECOVERED,
        "passed": True, "runs": 1, "planned": 1, "landed": 1,
    }  # fmt: skip
    return CellResult(**{**made, **more})


@pytest.fixture
def shard(tmp_path: Path) -> Shard:
    def make(name: str, *lines: RunResult | CellResult, digest: str = "d", plan: Any = (), **more: Any) -> str:
        made: dict[str, Any] = {
            "campaign": f"c-{name}", "seed": 7, "began": f"2026-11-30T06:5{len(name)}:00Z", "command": "pytest --chaos",
            "versions": {"langgraph": "1.2.24"}, "machine": {"kernel": "6.1"}, "host": name,
        }  # fmt: skip
        folder = tmp_path / name
        results.write_info(folder, CampaignInfo(**{**made, **more}))
        planned = tuple(
            PlannedCell(scenario="s", strategy=strategy, fault="kill", order=order, here=here)
            for order, (strategy, here) in enumerate(plan)
        )
        results.note(folder, results.PLANNED, Planned(scenarios={"s": digest}, cells=planned))
        for line in lines:
            results.append(folder, line)
        return str(folder)

    return make


def merge(tmp_path: Path, *folders: str) -> int:
    return main(["merge", *folders, "-o", str(tmp_path / "out")])


@pytest.mark.parametrize(
    ("one", "other", "wrong"),
    [
        ({"versions": {"langgraph": "1.3"}}, {}, "langgraph: 1.3 in {a}, 1.2.24 in {b}; run all shards with the same"),
        ({"digest": "e"}, {}, "the file of scenario 's': e in {a}, d in {b}; run all shards on the same files"),
        (
            {"shard": "1 of 3"},
            {"shard": "2 of 4"},
            "the number of groups: 3 in {a}, 4 in {b}; give all shards the same",
        ),
    ],
    ids=["versions", "scenarios", "groups"],
)
def test_folders_that_do_not_belong_together(
    tmp_path: Path, shard: Shard, capsys: pytest.CaptureFixture[str], one: Any, other: Any, wrong: str
) -> None:
    a, b = shard("a", cell("delta"), **one), shard("b", cell("cow"), **other)
    assert merge(tmp_path, a, b) == 2
    assert wrong.format(a=a, b=b) in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_all_that_differs_is_told_at_once(tmp_path: Path, shard: Shard, capsys: pytest.CaptureFixture[str]) -> None:
    part: dict[str, Any] = {"part": 1, "parts": 2, "plans": "9 plans (1)"}
    a = shard("a", cell(**part), cell("cow", parts=2), versions={"redis": "6"})
    b = shard("b", cell(**part | {"part": 2, "plans": "9 plans (2)"}), cell("cow", parts=3), seed=8)
    assert merge(tmp_path, a, b) == 2
    text = capsys.readouterr().err
    assert "redis: 6 in " in text and "langgraph: not noted in " in text
    assert f"the number of parts of cow x kill of s: 2 in {a}, 3 in {b}; give all shards the same --chaos-parts" in text


def test_parts_by_other_seeds_are_of_other_plans(
    tmp_path: Path, shard: Shard, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [cell(part=number, parts=2, plans=f"9 plans ({number})") for number in (1, 2)]
    a, b = shard("a", parts[0]), shard("b", parts[1], seed=8)
    assert merge(tmp_path, a, b) == 2
    wanted = f"9 plans (1) by seed 7 in {a}, 9 plans (2) by seed 8 in {b}; give all shards the same --chaos-seed"
    assert f"what is planned for delta x kill of s: {wanted}" in capsys.readouterr().err


def test_one_seed_that_ended_in_two_ways(tmp_path: Path, shard: Shard, capsys: pytest.CaptureFixture[str]) -> None:
    bad = CellVerdict.DIVERGED
    a, b = shard("a", run(), cell()), shard("b", run(verdict=bad), cell(verdict=bad, passed=False))
    assert merge(tmp_path, a, b) == 2
    text = capsys.readouterr().err
    told = f"recovered, as promised in {a}, diverged, not as promised in {b}"
    assert f"delta x kill of s: {told}; replay it, and leave the wrong folder out" in text
    assert f"delta x kill of s, kill@0/after_act#0: recovered in {a}, diverged in {b}" in text


def test_cells_of_other_seeds_and_files_are_merged_and_the_difference_told(
    tmp_path: Path, shard: Shard, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each folder has its own first cell: one after the other, then."""
    a = shard("a", run(), cell(), plan=[("delta", True)], machine={"kernel": "6.1", "oom_kill": "yes"})
    b = shard("b", run(strategy="cow"), cell("cow"), plan=[("cow", True)], machine={"kernel": "6.6"}, seed=8)
    assert merge(tmp_path, a, b) == 0
    assert f"the seeds differ: 7 in {a}, 8 in {b}" in capsys.readouterr().out
    campaign = results.read(tmp_path / "out")
    assert [(each.strategy, each.order) for each in campaign.cells] == [("delta", 0), ("cow", 1)]
    assert campaign.info.machine == {"kernel": "6.1 (a); 6.6 (b)", "oom_kill": "yes (a); not noted (b)"}
    assert "with the seeds 7, 8" in (tmp_path / "out/report.html").read_text(encoding="utf-8")


def test_a_result_counts_more_than_a_skip_and_a_whole_cell_more_than_its_beginning(
    tmp_path: Path, shard: Shard
) -> None:
    skipped = cell(verdict=CellVerdict.NOT_EXERCISED, runs=0, planned=0, landed=0, skipped="no cgroup")
    begun = [run(number, strategy="cow", seed=1) for number in range(3)]
    whole = [run(number, strategy="cow", seed=2) for number in range(2)]
    a, b = shard("a", skipped, *begun), shard("b", run(), cell(), *whole, cell("cow", runs=2))
    assert merge(tmp_path, a, b) == 0
    campaign = results.read(tmp_path / "out")
    assert [(each.strategy, each.runs, each.skipped) for each in campaign.cells] == [("delta", 1, ""), ("cow", 2, "")]
    assert [each.seed for each in campaign.runs if each.strategy == "cow"] == [2, 2]


def test_interrupted_shards_keep_what_they_have(
    tmp_path: Path, shard: Shard, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = [("delta", True), ("cow", True), ("events", False)]
    a = shard("a", run(), cell(), run(strategy="cow"), plan=plan, cells=2)
    with open(f"{a}/{results.RUNS}", "ab") as file:
        file.write(b'{"v": 1, "torn')
    b = shard("b", cells=1)
    (tmp_path / "b" / results.PLANNED).unlink()
    assert merge(tmp_path, a, b) == 1
    out = capsys.readouterr().out
    assert "missing: cow x kill of s, events x kill of s\n" in out and f"{b} ended before its first cell\n" in out
    assert f"{a} ended early: it has no result of 1 of its cells or parts\n" in out
    assert "incomplete: 2 of 3 cells were not judged" in out
    assert [each.strategy for each in results.read(tmp_path / "out").runs] == ["delta", "cow"]


def test_bundles_are_found_where_they_are_now(tmp_path: Path, shard: Shard) -> None:
    made: dict[str, Any] = {"verdict": CellVerdict.DIVERGED, "check": "state", "finding": "f", "was": "w", "case": "c"}
    bundle, name = "failures/s/delta-kill", "scenario.chaos.yaml"
    replay = f"pytest --chaos /somewhere/.chaos/{bundle}/{name} --chaos-case c"
    minimal = Minimal(**made, bundle=bundle, replay=replay)
    a = shard("a", cell(passed=False, verdict=CellVerdict.DIVERGED, minimal=(minimal,)))
    file = tmp_path / "a" / bundle / name
    file.parent.mkdir(parents=True)
    file.write_text("version: 1\n")
    assert merge(tmp_path, a) == 1
    (found,) = results.read(tmp_path / "out").cells[0].minimal
    path = shlex.split(found.replay)[2]
    assert Path(path).read_text() == "version: 1\n" and Path(path).parent == tmp_path / "out" / found.bundle


def test_equal_journals_of_references_are_kept_once(tmp_path: Path, shard: Shard) -> None:
    folders = [shard(name, run(strategy=name), cell(name)) for name in ("delta", "cow")]
    for folder in folders:
        path = Path(folder, "runs/reference/x/0/journal.jsonl")
        path.parent.mkdir(parents=True)
        path.write_text("{}\n")
    assert merge(tmp_path, *folders) == 0
    one, other = (tmp_path / f"out/shards/{number}/runs/reference/x/0/journal.jsonl" for number in (1, 2))
    assert one.samefile(other)


@pytest.mark.parametrize("place", ["a", "a/out", "."])
def test_a_merge_does_not_cost_what_is_merged(
    tmp_path: Path, shard: Shard, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    a = shard("a", run(), cell())
    assert main(["merge", a, "-o", str(tmp_path / place)]) == 2
    assert f"{a} is merged into it; name another folder with -o" in capsys.readouterr().err
    assert results.read(Path(a)).cells


def test_somebody_else_s_folder_is_left_alone(tmp_path: Path, shard: Shard, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "out" / "thesis.tex"
    own.parent.mkdir()
    own.write_text("mine")
    assert merge(tmp_path, shard("a", cell())) == 2
    assert "not empty, and no results folder" in capsys.readouterr().err and own.read_text() == "mine"


def test_a_folder_without_results_is_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert merge(tmp_path, str(tmp_path / "nowhere")) == 2
    assert "nowhere: no campaign here" in capsys.readouterr().err


def test_nothing_proved_is_not_as_promised(tmp_path: Path, shard: Shard) -> None:
    assert merge(tmp_path, shard("a")) == 1


def test_cells_are_json_that_other_tools_can_read(merged: Path) -> None:
    lines = [json.loads(line) for line in (merged / results.CELLS).read_text().splitlines()]
    assert {(line["fault"], line["part"], line["parts"]) for line in lines} >= {("refused", 1, 1)}
