"""What decides beside the verdicts: known failures, thresholds, the budget of time; and the exit codes."""

from __future__ import annotations

import re

import pytest

from chaos import history
from tests.plugins.project import LATE, Done, Project, scenario

KNOWN = "- {scenario: quick, strategy: cow, fault: late, check: effects, place: effect email.send}"
KNOWN_TEXT = f"version: 1\nknown:\n{KNOWN}\n"
EARLY = "{kind: kill, name: early, at: {step: 4, phase: before_think}}"
GONE = KNOWN_TEXT + KNOWN.replace("late", "early") + "\n"

CALLS: dict[str, list[str]] = {
    "written": ["--chaos-baseline", "made/known.yaml", "--chaos-write-baseline"],
    "known": ["--chaos-baseline", "made/known.yaml", "--chaos-fail-on", "rto_p95>+100000%"],
    "new": ["--chaos-baseline", "other.yaml"],
    "gone": ["--chaos-baseline", "gone.yaml"],
    "strict": ["--chaos-baseline", "strict.yaml"],
    "budget": ["--chaos-budget", "1ms"],
    "over": ["--chaos-fault", "early", "--chaos-fail-on", "recovered[cow]<=100%"],
    "first": ["--chaos-fault", "early", "--chaos-history", "own.jsonl", "--chaos-fail-on", "duplicates>+0"],
    "no file": ["--chaos-baseline", "none.yaml"],
    "no file named": ["--chaos-write-baseline"],
    "wrong file": ["--chaos-baseline", "wrong.yaml"],
    "wrong expression": ["--chaos-fail-on", "rto_p59>5s"],
    "wrong strategy": ["--chaos-fail-on", "rto_p95[cwo]>5s"],
    "wrong budget": ["--chaos-budget", "10"],
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("gates") / "project")
    project.write("quick.chaos.yaml", scenario(faults=f"[{EARLY}, {LATE}]", runs=1))
    project.write("other.yaml", KNOWN_TEXT.replace("email.send", "tickets.create"))
    project.write("gone.yaml", GONE)
    project.write("strict.yaml", f"{GONE}strict: true\n")
    project.write("wrong.yaml", KNOWN_TEXT.replace("check:", "chekc:"))
    return project


@pytest.fixture(scope="module")
def done(project: Project) -> dict[str, Done]:
    """All calls, one after the other, in one process."""
    return dict(
        zip(CALLS, project.run_all(*(["--chaos", "--chaos-seed", "7", *c] for c in CALLS.values())), strict=True)
    )


def test_a_baseline_is_written_of_what_fails_and_the_campaign_passes(done: dict[str, Done], project: Project) -> None:
    assert done["written"].code == 0 and "1 passed, 1 xfailed" in done["written"].out
    text = (project.folder / "made/known.yaml").read_text()
    assert [line for line in text.splitlines() if not line.startswith("#")] == ["version: 1", "known:", KNOWN]
    assert re.search(r"^baseline: 1 known failure written to ", done["written"].out, re.MULTILINE)


def test_known_failures_pass_and_are_called_known(done: dict[str, Done]) -> None:
    out = done["known"].out
    assert done["known"].code == 0 and "1 passed, 1 xfailed" in out
    assert re.search(r"^cow +ok 1/1 +known 0/1$", out, re.MULTILINE)
    assert "1 known failure accepted" in out and "baseline: 1 cell failed only as " in out


def test_a_failure_in_another_place_is_new(done: dict[str, Done]) -> None:
    assert done["new"].code == 1 and "1 failed, 1 passed" in done["new"].out
    assert re.search(r"^cow +ok 1/1 +EFFECTS 0/1$", done["new"].out, re.MULTILINE)
    assert "baseline: 0 cells failed only as" in done["new"].out


@pytest.mark.parametrize(("call", "code"), [("gone", 0), ("strict", 1)])
def test_what_no_longer_happens_is_told(done: dict[str, Done], call: str, code: int) -> None:
    out = " ".join(done[call].out.split())
    assert done[call].code == code and "1 passed, 1 xfailed" in out
    gone = "did not happen any more: cow x early of quick: effects (effect email.send). If it is fixed, remove it"
    assert gone in out and "cow x late of quick" not in out


def test_when_the_time_is_used_up_nothing_begins_and_that_is_no_success(done: dict[str, Done]) -> None:
    out = " ".join(done["budget"].out.split())
    assert done["budget"].code == 1 and "2 skipped" in out and "no cell was run" in out
    assert "the budget of 1ms is used up: 2 of 2 cells were not judged: cow x early and cow x late" in out


def test_a_figure_over_its_threshold_fails_a_campaign_in_which_all_is_well(done: dict[str, Done]) -> None:
    out = done["over"].out
    assert done["over"].code == 1 and "1 passed" in out and "failed" not in out.splitlines()[-1]
    assert "over the threshold: recovered[cow]<=100%: cow has 100 %" in out


def test_a_threshold_without_anything_to_compare_with_says_so(done: dict[str, Done]) -> None:
    out = " ".join(done["first"].out.split())
    assert done["first"].code == 0
    assert "duplicates>+0 proves nothing for cow: no earlier campaign in the history did the same work" in out
    assert "1 threshold kept" in done["known"].out  # it has the one before


def test_each_campaign_has_a_line_in_the_history(done: dict[str, Done], project: Project) -> None:
    entries = history.read(project.folder / ".chaos/history.jsonl")
    assert [(each.cells, each.as_promised) for each in entries] == [(2, 1)] * 5 + [(1, 1)]
    assert [each.over for each in entries] == [()] * 5 + [("recovered[cow]<=100%",)]
    assert [len(each.broken) for each in entries] == [0, 0, 1, 0, 0, 0]
    [figures] = entries[0].strategies
    assert (figures.strategy, figures.runs, figures.recovered, figures.duplicates) == ("cow", 2, 1, 1)
    assert entries[0].seconds > figures.run_seconds > 0 and figures.bytes_per_step
    assert len(history.read(project.folder / "own.jsonl")) == 1


def test_a_second_campaign_knows_how_long_it_takes(done: dict[str, Done]) -> None:
    assert "about 2 runs in 2 cells, how long is not known yet" in done["written"].out
    assert re.search(r"^chaos: about 2 runs in 2 cells, about \d+ s$", done["known"].out, re.MULTILINE)
    assert "still running" not in done["known"].out  # it is silent for seconds, not for half a minute


WRONG = {
    "no file": "--chaos-baseline: .*none.yaml: no such file; --chaos-write-baseline writes it",
    "no file named": "--chaos-write-baseline: name the file with --chaos-baseline FILE",
    "wrong file": r"wrong.yaml:3:\d+: unknown field 'chekc'",
    "wrong expression": "--chaos-fail-on: 'rto_p59>5s', at character 1: no metric 'rto_p59'; did you mean 'rto_p95'?",
    "wrong strategy": "--chaos-fail-on: no strategy 'cwo'; did you mean 'cow'?",
    "wrong budget": "--chaos-budget: 10 needs a unit|--chaos-budget: write a duration with a unit",
}


@pytest.mark.parametrize("call", WRONG)
def test_exit_4_what_makes_no_sense(done: dict[str, Done], call: str) -> None:
    assert done[call].code == 4 and re.search(WRONG[call], done[call].out), done[call].out


def test_exit_codes_are_in_the_help(project: Project) -> None:
    text = " ".join(project.run("--help").out.split())
    for code, what in {
        0: "all as promised",
        1: "a promise was broken",
        2: "a scenario is wrong",
        4: "an option",
    }.items():
        assert f"{code} {what}" in text
