"""What GitHub shows: the summary within its limit, errors at the scenario's lines, escaped by its rules."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import history, results
from chaos.plugins import github
from chaos.plugins.command_line import main
from chaos.shards import Planned, PlannedCell
from chaos.verdict import CellVerdict
from tests.plugins.project import KILL, LATE, Done, Project, scenario
from tests.reports.conftest import Sample, broken

TWICE = LATE.replace("late", "twice")
KNOWN = """\
version: 1
known:
- {scenario: quick, strategy: cow, fault: twice, check: effects, place: effect email.send, because: issue 12}
"""


def unescaped(text: str) -> str:
    """Return what GitHub makes of a value."""
    for code, char in (("%0A", "\n"), ("%0D", "\r"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, char)
    return text


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_command_is_one_line_from_which_all_comes_back(title: str, message: str) -> None:
    line = github.command("error", {"title": title, "line": "3"}, message)
    assert not re.search(r"[\r\n]", line)
    found = re.fullmatch(r"::error title=([^:,]*),line=3::(.*)", line, re.DOTALL)
    assert found and (unescaped(found[1]), unescaped(found[2])) == (title, message)


def campaign(folder: Path, cells: int, file: str = "kill.chaos.yaml") -> results.Campaign:
    """Return a campaign in which so many cells broke a promise."""
    sample = Sample(folder)
    made = sample.run("s", "cow", "kill", 0, CellVerdict.DIVERGED, **broken("files"))
    (folder / results.RUNS).unlink()
    for number in range(cells):
        run = msgspec.structs.replace(made, fault=f"f{number}")
        results.append(folder, run)
        sample.cell("s", "cow", f"f{number}", (run,), passed=False, why="files broke, 50 %\nof: all")
    plan = tuple(PlannedCell(scenario="s", strategy="cow", fault=f"f{n}", order=n, file=file) for n in range(cells))
    results.note(folder, results.PLANNED, Planned(cells=plan))
    return results.read(folder)


def test_errors_are_at_the_fault_s_line_worst_first_and_the_rest_in_one_notice(tmp_path: Path) -> None:
    faults = "".join(f"  - {{kind: kill, name: f{number}, at: {{step: 1}}}}\n" for number in range(23))
    (tmp_path / "kill.chaos.yaml").write_text(f"version: 1\nscenario: s\nstrategies: [cow]\nfaults:\n{faults}")
    lines = list(github.errors(campaign(tmp_path / "results", 23), tmp_path))
    assert len(lines) == github.ERRORS + 1
    assert [re.search(r"line=(\d+),", line)[1] for line in lines[:10]] == [str(5 + number) for number in range(10)]  # type: ignore[index]
    assert lines[0].startswith(
        f"::error file={tmp_path}/kill.chaos.yaml,line=5,title=cow × f0%3A lost files::files broke, 50 %25%0Aof: all"
    )
    assert lines[-1].startswith("::notice title=pytest-chaos::13 more cells not as promised: cow × f10, ")


def test_without_the_file_there_is_an_error_all_the_same(tmp_path: Path) -> None:
    [line] = github.errors(campaign(tmp_path / "results", 1, file=""), tmp_path)
    assert line.startswith("::error title=cow × f0%3A lost files::")


def test_a_path_is_told_from_the_top_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    [line] = github.errors(campaign(tmp_path / "results", 1, file="a/kill.chaos.yaml"), tmp_path / "sub")
    assert "file=sub/a/kill.chaos.yaml,line=1," in line


@pytest.mark.parametrize("there", [0, 100, 1024 * 1024 - 30, 2 * 1024 * 1024], ids=str)
def test_the_summary_stays_within_the_limit_and_says_what_is_left_out(tmp_path: Path, there: int) -> None:
    path = tmp_path / "summary.md"
    path.write_text("x" * there)
    sections = ["first\n", *("é" * 1000 + "\n" for _ in range(800))]
    github.summarise(path, sections)
    text = path.read_text()[there:]
    assert len(path.read_bytes()) <= max(github.SUMMARY_BYTES, there)
    if there <= 100:
        [left] = re.findall(r"(\d+) sections left out", text)
        assert text.startswith("first\n") and text.count("é") == 1000 * (801 - 1 - int(left))
        assert len(path.read_bytes()) > github.SUMMARY_BYTES - 3000  # no section less than there is room for
    github.summarise(tmp_path / "small.md", sections[:1])
    assert (tmp_path / "small.md").read_text() == "first\n\n"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Done]:
    """A job with two workers, in which one cell breaks a promise."""
    project = Project(tmp_path_factory.mktemp("job") / "project")
    project.write("quick.chaos.yaml", scenario(faults=f"[{KILL},\n  {LATE},\n  {TWICE}]", runs=1))
    project.write("known.yaml", KNOWN)
    project.write("summary.md", "of a step before\n")
    known = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": "summary.md", "GITHUB_WORKSPACE": str(project.folder)}
    options = (
        "-n",
        "2",
        "--chaos-baseline",
        "known.yaml",
        "--junitxml",
        "junit.xml",
        "-o",
        "junit_family=xunit1",
        "-q",
        "-W",
        "error",
    )
    return project, project.run("--chaos", "--chaos-seed", "7", *options, **known)


def test_a_job_has_its_errors_at_the_start_of_lines(job: tuple[Project, Done]) -> None:
    found = re.findall(r"^::error .*$", job[1].out, re.MULTILINE)
    assert job[1].code == 1 and len(found) == 1 == job[1].out.count("::error")
    assert found[0].startswith(
        "::error file=quick.chaos.yaml,line=8,title=cow × late%3A effects not once::effects broke in 1 of 1"
    )
    assert "%0Areplay: pytest --chaos quick.chaos.yaml" in found[0] and found[0].endswith("[check.effects]")


def test_a_job_has_a_summary_after_those_of_steps_before(job: tuple[Project, Done]) -> None:
    text = (job[0].folder / "summary.md").read_text()
    assert text.startswith("of a step before\n## pytest-chaos: ✗ 1 broken promise\n")
    assert "| **cow** | ✓ recovered 1/1<br>RPO " in text and "| ✗ effects not once 0/1<br>RPO 1, RTO " in text
    assert "<details><summary>✗ <b>cow × late</b>: effects broke in 1 of 1 runs</summary>" in text
    assert "```text\npytest --chaos quick.chaos.yaml --chaos-seed 7 --chaos-strategy cow --chaos-fault late" in text


def test_junit_has_all_that_is_known_of_a_cell_from_workers_too(job: tuple[Project, Done]) -> None:
    cases = {case.get("name"): case for case in ElementTree.parse(job[0].folder / "junit.xml").iter("testcase")}
    for name, wanted in {
        "test_quick[cow-kill]": {"verdict": "recovered", "recovered": "1", "codes": "", "known": "", "minimal": ""},
        "test_quick[cow-late]": {"verdict": "diverged", "recovered": "0", "codes": "check.effects", "rpo_p95": "1"},
        "test_quick[cow-twice]": {"verdict": "diverged", "known": "effects"},
    }.items():
        found = {entry.get("name", ""): entry.get("value") for entry in cases[name].iter("property")}
        assert found.items() >= {f"chaos.{key}": value for key, value in wanted.items()}.items()
        assert {f"chaos.{key}" for key in ("runs", "planned", "landed", "replay", "seed", "rpo_p50")} <= found.keys()
        assert 0 < float(found["chaos.rto_p50"] or 0) <= float(found["chaos.rto_p95"] or 0)


def test_what_is_merged_has_the_same_gates_and_the_same_page(
    job: tuple[Project, Done], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project, done = job
    out, path = project.folder / "merged", project.folder / "merged.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    monkeypatch.setenv("GITHUB_ACTIONS", "false")
    words = ["merge", str(done.folder), "-o", str(out), "--history", str(out / "h.jsonl")]
    assert main([*words, "--fail-on", "recovered<50%"]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "over the threshold: recovered<50%: cow has 33.33 %" in told and "::error" not in told
    assert re.search(r"\bcow +ok 1/1 +EFFECTS 0/1 +known 0/1", told) and "1 known failure accepted" in told
    assert path.read_text().startswith("## pytest-chaos: ✗ 1 broken promise\n")
    [entry] = history.read(out / "h.jsonl")
    assert (entry.cells, entry.as_promised, entry.over) == (3, 1, ("recovered<50%",)) and len(entry.broken) == 1
    assert main([*words, "--fail-on", "recovered<half"]) == 2
    assert "at character 11" in capsys.readouterr().err
