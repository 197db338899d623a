"""`pytest --chaos` through the front door: real processes, real campaigns on small agents."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from xml.etree import ElementTree

import msgspec
import pytest

from chaos.results import RunResult
from chaos.sandbox.process import able
from tests.plugins.project import KILL, LATE, Done, Project, scenario

BROKEN = "version: 1\nscenario: broken\ntarget: {reference: {}}\nstrategies: [cwo]\nfaults: [{kind: kil}]\n"
EXPECTED = """\
expected_failures:
  - strategy: restart
    breaks: [effects]
    may_break: [recovery]
    because: nothing is kept
"""
MATRIX = scenario(strategies="[restart, chat_history, cow]", faults=f"[{KILL}, {LATE}]", more=EXPECTED)
CELLS = [f"{strategy}-{fault}" for strategy in ("restart", "chat_history", "cow") for fault in ("kill", "late")]
FAILING = ["chat_history-kill", "chat_history-late", "cow-late"]


def ids(out: str) -> list[str]:
    """Return the cells among what `--co -q` or `-v` printed."""
    return list(dict.fromkeys(re.findall(r"::test_\w+\[([^\]]+)\]", out)))


# ----- without --chaos


PROBE = """\
import atexit, sys
atexit.register(lambda: print("LOADED", sorted(name for name in sys.modules if name.split(".")[0] in {wanted})))
"""
HEAVY = {"pydantic", "ruamel", "jinja2", "faker", "langgraph", "msgspec", "hypothesis", "docker", "chaos"}


def test_without_the_switch_nothing_is_collected_and_nothing_loaded(project: Project) -> None:
    project.write("broken.chaos.yaml", BROKEN)
    project.write("test_own.py", "def test_own(): pass\n")
    project.write("conftest.py", PROBE.format(wanted=HEAVY))
    done = project.run()
    assert done.code == 0 and "1 passed" in done.out
    loaded = re.search(r"LOADED (\[.*\])", done.out)
    assert loaded and set(json.loads(loaded[1].replace("'", '"'))) == {
        "chaos", "chaos.plugins", "chaos.plugins.pytest_plugin", "chaos.plugins.settings",
    }  # fmt: skip
    assert not (project.folder / ".chaos").exists()


def test_the_plugin_costs_few_imports() -> None:
    code = (
        "import sys, pytest, _pytest.config; before = set(sys.modules); import chaos.plugins.pytest_plugin\n"
        "print(len(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 12


def test_help_groups_the_options_and_names_their_variables(project: Project) -> None:
    out = project.run("--help").out
    text = out[out.index("recovery testing of long-running agents") :]
    for name in ("seed", "runs", "strategy", "fault", "case", "results", "report"):
        assert f"--chaos-{name}" in text and f"CHAOS_{name.upper()}" in text


def test_help_with_the_switch_begins_nothing(project: Project) -> None:
    assert project.run("--chaos", "--help").code == 0
    assert not (project.folder / ".chaos").exists()


def test_fixtures_skip_without_the_switch(project: Project) -> None:
    project.write("test_own.py", "def test_seed(chaos_seed): pass\ndef test_runner(chaos_runner): pass\n")
    done = project.run("-rs", "--strict-markers")
    assert done.code == 0 and "2 skipped" in done.out and "needs --chaos" in done.out


# ----- one campaign, many questions


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("matrix") / "my project")
    project.write("my scenarios/kill.chaos.yaml", MATRIX)
    return project


@pytest.fixture(scope="module")
def campaign(matrix: Project) -> Done:
    """Three strategies and two faults; three cells break a promise, two are expected to."""
    options = ("--chaos-seed", "7", "--junitxml", "junit.xml", "--strict-markers", "-W", "error")
    return matrix.run("--chaos", "-v", "-rx", *options, foreign=True)


@pytest.fixture(scope="module")
def parallel(matrix: Project, campaign: Done) -> Done:
    """The same campaign again, by two workers."""
    return matrix.run("--chaos", "-n", "2", "--chaos-seed", "7", "--chaos-results", "two", results="two")


def test_cells_are_tests(campaign: Done) -> None:
    assert ids(campaign.out) == CELLS
    assert "my scenarios/kill.chaos.yaml::test_kill[cow-kill] PASSED" in campaign.out
    assert campaign.code == 1 and "3 failed, 1 passed, 2 xfailed" in campaign.out


def test_the_header_has_seed_and_abilities(campaign: Done) -> None:
    assert re.search(r"^chaos: seed=7, process tree: ", campaign.out, re.MULTILINE)


def test_the_summary_has_everything_to_go_on(campaign: Done) -> None:
    summary = campaign.out[campaign.out.index(" chaos: strategy x fault ") :]
    assert re.search(r"^ +kill +late$", summary, re.MULTILINE)
    assert re.search(r"^cow +ok 2/2", summary, re.MULTILINE)
    assert "9/9 planned faults landed\nseed 7\nreplay: pytest --chaos 'my scenarios/kill.chaos.yaml' " in summary
    assert f"report: {campaign.report}" in summary
    assert campaign.report.read_text(encoding="utf-8").lstrip().startswith("<!doctype html>")


def test_a_failure_says_what_broke_and_how_to_see_it_again(campaign: Done) -> None:
    failures = campaign.out[campaign.out.index("= FAILURES =") : campaign.out.index(" chaos: strategy x fault ")]
    assert "cow x late: diverged\n  effects broke in 1 of 1 runs\n  effects: email.send happened 2 times" in failures
    assert "Traceback" not in failures and "pytest_plugin.py" not in failures


def test_an_expected_failure_shows_its_reason(campaign: Done) -> None:
    assert re.search(
        r"^XFAIL .*test_kill\[restart-late\] - .*broke as expected: .*\(nothing is kept\)", campaign.out, re.MULTILINE
    )


def test_junit_has_properties_and_texts(campaign: Done, matrix: Project) -> None:
    cases = {case.get("name"): case for case in ElementTree.parse(matrix.folder / "junit.xml").iter("testcase")}
    found = {entry.get("name"): entry.get("value") for entry in cases["test_kill[cow-late]"].iter("property")}
    assert found.items() >= {
        "chaos.scenario": "quick", "chaos.strategy": "cow", "chaos.fault": "late", "chaos.verdict": "diverged",
        "chaos.runs": "1", "chaos.planned": "1", "chaos.landed": "1", "chaos.seed": "7",
    }.items()  # fmt: skip
    assert "--chaos-case" in (found["chaos.replay"] or "")
    failure = cases["test_kill[cow-late]"].find("failure")
    assert failure is not None and "effects broke in 1 of 1 runs" in (failure.text or "")


def test_results_are_one_object_per_run(campaign: Done) -> None:
    assert len(campaign.runs) == 9
    for run in campaign.runs:
        assert run["v"] == 1 and run["campaign"] == campaign.info["campaign"]
        assert set(run) == {field.encode_name for field in msgspec.structs.fields(RunResult)}
        assert run["planned"] == len(run["landed"]) == 1 and all(landed["evidence"] for landed in run["landed"])
        assert (campaign.folder / run["journal"]).exists() and (campaign.folder / run["reference"]).exists()
    assert [f"{cell['strategy']}-{cell['fault']}" for cell in campaign.cells] == CELLS
    assert [cell["order"] for cell in campaign.cells] == list(range(6))
    assert campaign.info["seed"] == 7 and "--chaos-seed 7" in campaign.info["command"]


def test_results_are_ignored_by_git_where_the_name_is_ours(campaign: Done, parallel: Done) -> None:
    assert (campaign.folder / ".gitignore").read_text().endswith("*\n")
    assert not (parallel.folder / ".gitignore").exists()


def test_workers_give_the_same_plans_and_verdicts(campaign: Done, parallel: Done) -> None:
    assert parallel.code == 1 and "3 failed, 1 passed, 2 xfailed" in parallel.out
    assert parallel.verdicts == campaign.verdicts
    assert {run["seed"] for run in parallel.runs} == {run["seed"] for run in campaign.runs}
    assert parallel.out.count(" chaos: strategy x fault ") == 1
    assert "9/9 planned faults landed\nseed 7\n" in parallel.out and parallel.report.exists()
    places = {cell["order"]: f"{cell['strategy']}-{cell['fault']}" for cell in parallel.cells}
    assert [places[order] for order in range(6)] == CELLS


def test_a_replay_command_gives_the_same_verdict_and_keeps_the_campaign(matrix: Project, campaign: Done) -> None:
    printed = re.search(r"replay: (pytest .*--chaos-strategy chat_history --chaos-fault kill .*)", campaign.out)
    assert printed
    again = matrix.replay(printed[1])
    [(key, verdict)] = again.verdicts.items()
    assert again.code == 1 and "1 failed" in again.out
    assert verdict == campaign.verdicts[key] and verdict[1] == "diverged"
    assert len(campaign.runs) == 9 and campaign.report.exists()


def test_last_failed_selects_exactly_the_failing_cells(matrix: Project, parallel: Done) -> None:
    assert ids(matrix.run("--chaos", "--lf", "--co", "-q").out) == FAILING


SELECTIONS: list[tuple[list[str], list[str]]] = [
    (["-k", "late and not cow"], ["restart-late", "chat_history-late"]),
    (["-m", "not demo"], []),
    (["-m", "two-words"], CELLS),
    (["-m", "chaos(strategy='cow')"], ["cow-kill", "cow-late"]),
    (["my scenarios/kill.chaos.yaml::test_kill[cow-kill]"], ["cow-kill"]),
    (["--chaos-strategy", "cow, restart", "--chaos-fault", "late"], ["restart-late", "cow-late"]),
    (["--chaos-fault", "kill"], ["restart-kill", "chat_history-kill", "cow-kill"]),
    (["--chaos-case", "late@2/after_act#0", "--chaos-strategy", "cow"], ["cow-late"]),
]


@pytest.fixture(scope="module")
def selected(matrix: Project, campaign: Done) -> list[Done]:
    options = ("--chaos", "--co", "-q", "--strict-markers")
    return matrix.run_all(*([*options, *selection] for selection, _ in SELECTIONS))


@pytest.mark.parametrize("number", range(len(SELECTIONS)), ids=lambda number: " ".join(SELECTIONS[number][0]))
def test_selection(selected: list[Done], campaign: Done, number: int) -> None:
    cells = SELECTIONS[number][1]
    assert ids(selected[number].out) == cells and selected[number].code == (0 if cells else 5)
    assert len(campaign.runs) == 9 and campaign.report.exists()  # --co runs nothing and removes nothing


# ----- exit codes


def test_exit_0_settings_from_the_environment_and_another_seed(matrix: Project, campaign: Done) -> None:
    done = matrix.run(
        "--chaos",
        results="other",
        CHAOS_SEED="8", CHAOS_STRATEGY="cow", CHAOS_FAULT="kill", CHAOS_RUNS="3", CHAOS_CASE="",
        CHAOS_RESULTS="other", CHAOS_REPORT="pages/page.html",
    )  # fmt: skip
    assert done.code == 0 and "1 passed" in done.out and "3/3 planned faults landed\nseed 8\n" in done.out
    assert (matrix.folder / "pages/page.html").exists() and not done.report.exists()
    plans = [run["plan"] for run in done.runs]
    assert len(plans) == 3
    assert plans[:2] != [run["plan"] for run in campaign.runs if (run["strategy"], run["fault"]) == ("cow", "kill")]


def test_exit_1_unexpectedly_kept_and_stop_at_the_first_failure(project: Project) -> None:
    more = "expected_failures: [{strategy: cow, breaks: [files], because: it was said}]"
    project.write("kept.chaos.yaml", scenario(strategies="[cow, restart]", runs=1, more=more))
    done = project.run("--chaos", "-x")
    assert done.code == 1 and "unexpectedly kept: files" in done.out
    assert "1 failed" in done.out and [cell["strategy"] for cell in done.cells] == ["cow"] and done.report.exists()
    assert "ended early: 1 of 2 cells were not judged" in done.out


@pytest.mark.skipif(bool(able().memory_limit), reason=able().memory_limit)
def test_exit_1_not_exercised(project: Project) -> None:
    fault = "{kind: oom_kill, limit: 64GiB, at: {step: 4, phase: before_think}}"
    project.write("oom.chaos.yaml", scenario(faults=f"[{fault}]", runs=1))
    done = project.run("--chaos")
    assert done.code == 1 and "0/1 planned faults landed" in done.out
    assert "cow x oom_kill: not exercised" in done.out


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["one process", "workers"])
def test_exit_2_a_wrong_scenario_starts_nothing(project: Project, workers: list[str]) -> None:
    project.write("broken.chaos.yaml", BROKEN)
    project.write("right.chaos.yaml", scenario())
    project.write(".chaos/results.jsonl", "of a campaign before\n")
    done = project.run("--chaos", *workers)
    assert done.code == 2
    assert re.search(r"broken\.chaos\.yaml:4:14: .*did you mean 'cow'", done.out)
    assert re.search(r"broken\.chaos\.yaml:5:\d+: .*did you mean 'kill'", done.out)
    assert (project.folder / ".chaos/results.jsonl").read_text() == "of a campaign before\n"
    assert sorted(path.name for path in done.folder.iterdir()) == ["results.jsonl"]


WRONG = [
    (["--chaos-seed", "x"], "--chaos-seed (CHAOS_SEED) takes a number from 0"),
    (["--chaos-runs", "0"], "--chaos-runs (CHAOS_RUNS) takes a number from 1"),
    (["--chaos-case", "nonsense"], "--chaos-case: not a planned fault: 'nonsense'; write FAULT@STEP/PHASE"),
    (["--chaos-case", "kil@2/after_act"], "--chaos-case: no fault 'kil'; did you mean 'kill'?"),
    (["--chaos-strategy", "cow,chat_histroy"], "--chaos-strategy: no strategy 'chat_histroy'; did you mean"),
    (["--chaos-fault", "lat"], "--chaos-fault: no fault 'lat'; did you mean 'late'?"),
    (["--chaos-results", "file"], "--chaos-results: cannot write to"),
    (["--chaos-report", "tmp"], "--chaos-report: "),
    (["--chaos-report", "file/page.html"], "--chaos-report: cannot write"),
]


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> list[Done]:
    project = Project(tmp_path_factory.mktemp("wrong") / "project")
    project.write("kill.chaos.yaml", MATRIX)
    project.write("file", "")
    return project.run_all(*(["--chaos", *options] for options, _ in WRONG))


@pytest.mark.parametrize("number", range(len(WRONG)), ids=lambda number: " ".join(WRONG[number][0]))
def test_exit_4_wrong_options(refused: list[Done], number: int) -> None:
    assert refused[number].code == 4 and WRONG[number][1] in refused[number].out
    assert refused[number].runs == []


def test_exit_4_workers_refuse_unknown_names(project: Project) -> None:
    project.write("kill.chaos.yaml", scenario())
    done = project.run("--chaos", "-n", "1", "--chaos-fault", "kil")
    assert done.code == 4 and "--chaos-fault: no fault 'kil'; did you mean 'kill'?" in done.out
    assert not done.folder.exists()


def test_exit_5_nothing_to_run(project: Project) -> None:
    done = project.run("--chaos")
    assert done.code == 5 and not done.folder.exists()


def test_every_cell_skipped_still_makes_a_report(project: Project) -> None:
    fault = "{kind: corrupt_delta, how: flip, at: {step: 4, phase: after_commit}}"
    project.write("delta.chaos.yaml", scenario(strategies="[restart]", faults=f"[{fault}]"))
    done = project.run("--chaos", "-rs")
    assert done.code == 0 and "1 skipped" in done.out and done.report.exists()
    assert re.search(r"^SKIPPED \[1\] delta.chaos.yaml:\d+: \w+", done.out, re.MULTILINE)  # the file is the scenario
    assert "0/0 planned faults landed" in done.out


def test_expected_failures_fail_when_pytest_is_told_to_ignore_them(project: Project) -> None:
    project.write("kill.chaos.yaml", scenario(strategies="[restart]", faults=f"[{LATE}]", more=EXPECTED))
    done = project.run("--chaos", "--runxfail")
    assert done.code == 1 and "1 failed" in done.out and "broke as expected: effects" in done.out


# ----- names


def test_a_label_means_one_variant_and_a_name_all(project: Project) -> None:
    variants = "[{delta: {every: 4}}, {delta: {every: 4, durability: exit}}, full_snapshot]"
    project.write("a.chaos.yaml", scenario("a", strategies=variants))
    project.write("b.chaos.yaml", scenario("b", strategies="[delta, {delta: {every: 4}}]"))

    both = "delta:every=4,durability=exit"
    asked = ["delta", both, f"{both},full_snapshot"]
    named = project.run_all(*(["--chaos", "--co", "-q", "--chaos-strategy", text] for text in asked))
    cells = [re.findall(r"(\w)\.chaos\.yaml::test_\w+\[(.*)-kill\]", done.out) for done in named]
    assert cells == [
        [("a", "delta:every=4"), ("a", both), ("b", "delta")],
        [("a", both)],
        [("a", both), ("a", "full_snapshot")],
    ]


def test_faults_of_one_name_in_two_files(project: Project) -> None:
    project.write("a.chaos.yaml", scenario("a", faults=f"[{LATE}]"))
    project.write("b.chaos.yaml", scenario("b", faults=f"[{LATE}]"))
    done = project.run("--chaos")
    assert done.code == 1 and "2 failed" in done.out
    assert re.search(r"^ +a +b *\n +late +late *\n", done.out, re.MULTILINE)
    assert {run["journal"] for run in done.runs} == {f"runs/{name}/cow/late/0/journal.jsonl" for name in "ab"}


def test_scenarios_of_one_name_are_refused(project: Project) -> None:
    project.write("a/kill.chaos.yaml", scenario())
    project.write("b/kill.chaos.yaml", scenario())
    done = project.run("--chaos")
    assert done.code == 2 and re.search(r"a/kill.chaos.yaml is called 'quick' too; rename one", done.out)


@pytest.mark.parametrize("tag", ["skip", "xfail", "_skip"])
def test_tags_that_are_marks_with_a_meaning_are_refused(project: Project, tag: str) -> None:
    project.write("a.chaos.yaml", scenario().replace("two-words", tag))
    done = project.run("--chaos")
    assert done.code == 2 and "is a mark with a meaning; take another word" in done.out


def test_odd_file_names_and_tags_can_be_asked_for(project: Project) -> None:
    project.write("odd name (1).chaos.yaml", scenario().replace("two-words", "'two words: more'"))
    done = project.run("--chaos", "--co", "-q", "--strict-markers", "-m", "two_words__more")
    assert done.code == 0 and "odd name (1).chaos.yaml::test_odd_name__1_[cow-kill]" in done.out


# ----- together with Python


def test_fixtures_of_the_project_and_tests_in_python(project: Project) -> None:
    project.write("scenarios/kill.chaos.yaml", scenario(runs=1))
    project.write(
        "conftest.py",
        "import os, pytest\n"
        "@pytest.fixture(autouse=True)\n"
        "def around(request, tmp_path, monkeypatch):\n"
        "    monkeypatch.chdir(tmp_path)  # the results must not follow\n"
        "    print('before', request.node.name); yield; print('after', request.node.name)\n",
    )
    project.write(
        "test_own.py",
        "from pathlib import Path\n"
        "from chaos import Cell\n"
        "from chaos.scenario.loader import load\n"
        "def test_seed(chaos_seed): assert chaos_seed == 7\n"
        "def test_runner(chaos_runner):\n"
        "    scenario = load(Path(__file__).parent / 'scenarios/kill.chaos.yaml', 7)\n"
        "    result = chaos_runner.run_cell(Cell(scenario, scenario.strategies[0], scenario.faults[0]))\n"
        "    assert result.passed and result.landed == 1\n",
    )
    done = project.run("--chaos", "--chaos-seed", "7", "-s", "scenarios", "test_own.py")
    assert done.code == 0 and "3 passed" in done.out
    assert "before test_kill[cow-kill]" in done.out and "after test_kill[cow-kill]" in done.out
    assert len(done.runs) == 2 and done.report.exists()


def test_another_plugin_may_have_taken_an_option(project: Project) -> None:
    project.write(
        "other.py",
        "def pytest_addoption(parser):\n"
        "    parser.addoption('--chaos', action='store_true')\n"
        "    parser.addoption('--chaos-seed')\n",
    )
    project.write("kill.chaos.yaml", scenario())
    done = project.run("-p", "other", "--chaos", "--chaos-seed", "5", "--co", PYTHONPATH=str(project.folder))
    assert done.code == 0 and "another plugin defines --chaos-seed too" in done.out and "seed=5" in done.out
