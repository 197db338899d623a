"""`pytest-chaos check`: all mistakes at once, in three formats, from files, folders and standard input."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import chaos
from chaos.errors import Kind, Problem
from chaos.plugins.command_line import main
from chaos.plugins.commands.check import annotation
from tests.plugins.project import Project

ROOT = Path(__file__).parents[2]
SHIPPED = Path(chaos.__file__).parent / "scenarios"
BAD = """\
version: 1
scenario: bad
target: {reference: {steps: "40"}}
strategies: [delta]
faults: [{kind: evikt}]
"""
GOOD = BAD.replace('"40"', "40").replace("evikt", "evict")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a good and a bad scenario are, and one that is nobody's."""
    for name, text in (("bad", BAD), ("deep/good", GOOD), (".venv/x", BAD), ("node_modules/x", BAD)):
        path = tmp_path / f"{name}.chaos.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_means_the_scenarios_in_it_and_below(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "."]) == 2
    printed = capsys.readouterr()
    assert printed.out == "deep/good.chaos.yaml: ok\n"
    heads = [line for line in printed.err.splitlines() if "chaos.yaml" in line]
    assert heads == [
        "bad.chaos.yaml:3:29: must be a whole number, not the text '40'; remove the quotes [scenario.wrong-type]",
        "bad.chaos.yaml:5:17: unknown fault 'evikt'; did you mean 'evict'? [scenario.unknown-name]",
    ]
    assert '    3 | target: {reference: {steps: "40"}}' in printed.err, "the line itself is shown"


def test_a_folder_without_scenarios_is_no_pass(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "empty").mkdir()
    assert main(["check", "empty", "deep"]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("empty: no *.chaos.yaml file is in this folder or below") and "ok" in printed.out


def test_standard_input(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for text, code in ((GOOD, 0), (BAD, 2), ("", 2), ("\udcff", 2)):
        data = text.encode("utf-8", "surrogateescape")
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        assert main(["check", "-"]) == code
    printed = capsys.readouterr()
    assert printed.out == "<stdin>: ok\n"
    assert "<stdin>:5:17: unknown fault" in printed.err and "<stdin>:1:1: not UTF-8" in printed.err


def test_what_pytest_refuses_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "tag.chaos.yaml").write_text(GOOD + "tags: [skip]\n", encoding="utf-8")
    assert main(["check", "tag.chaos.yaml"]) == 2
    assert "tag.chaos.yaml: the tag 'skip' is a mark with a meaning" in capsys.readouterr().err


def test_json_has_every_file_and_every_problem(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", ".", "none.chaos.yaml", "--format", "json"]) == 2
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert printed.err == "" and found["v"] == 1
    assert found["files"] == [
        {"file": "bad.chaos.yaml", "ok": False, "scenario": ""},
        {"file": "deep/good.chaos.yaml", "ok": True, "scenario": "bad"},
        {"file": "none.chaos.yaml", "ok": False, "scenario": ""},
    ]
    assert found["problems"][0] == {
        "file": "bad.chaos.yaml",
        "line": 3,
        "column": 29,
        "code": "scenario.wrong-type",
        "message": "must be a whole number, not the text '40'; remove the quotes",
    }
    assert [(each["line"], each["code"]) for each in found["problems"][1:]] == [
        (5, "scenario.unknown-name"),
        (0, "scenario.unreadable"),
    ]


def test_annotations_name_line_and_column(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "bad.chaos.yaml", "--format", "github"]) == 2
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(
        "::error file=bad.chaos.yaml,line=3,col=29,title=scenario.wrong-type::must be a whole number"
    )
    assert second.startswith("::error file=bad.chaos.yaml,line=5,col=17,")


def test_annotations_name_files_from_the_top_of_the_repository(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder))
    (folder / "deep/bad.chaos.yaml").write_text(BAD, encoding="utf-8")
    monkeypatch.chdir(folder / "deep")
    assert main(["check", "bad.chaos.yaml", "--format", "github"]) == 2
    assert "file=deep/bad.chaos.yaml," in capsys.readouterr().out


def test_annotations_are_escaped_as_github_reads_them() -> None:
    """As actions/toolkit writes them: `%`, CR and LF in all, and `:` and `,` in properties."""
    told = annotation(Problem("a,b:c.yaml", 1, 2, "50 % of\nlines: a, b\r", Kind.VALUE))
    assert told == ("::error file=a%2Cb%3Ac.yaml,line=1,col=2,title=scenario.wrong-value::50 %25 of%0Alines: a, b%0D")
    assert "line=" not in annotation(Problem("a.yaml", 0, 0, "x"))


def test_pytest_says_the_same(project: Project) -> None:
    project.write("bad.chaos.yaml", BAD)
    done = project.run("--chaos")
    assert done.code == 2 and "bad.chaos.yaml:5:17: unknown fault 'evikt'; did you mean 'evict'?" in done.out
    assert "[scenario.unknown-name]" in done.out and "[scenario.wrong-type]" in done.out


def test_the_shipped_scenarios_are_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(SHIPPED)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(list(SHIPPED.glob("*.chaos.yaml")))


def test_the_hook_for_pre_commit(folder: Path) -> None:
    """What pre-commit does: the entry's words, and the files that the pattern finds."""
    path = ROOT / ".pre-commit-hooks.yaml"
    if not path.exists():
        pytest.skip("not a checkout")
    from ruamel.yaml import YAML

    [hook] = YAML(typ="safe", pure=True).load(path)
    assert hook["id"] == "pytest-chaos-check" and hook["language"] == "python"
    files = [str(file) for file in Path().rglob("*") if re.search(hook["files"], str(file))]
    assert "bad.chaos.yaml" in files and all(name.endswith(".chaos.yaml") for name in files)
    program, *words = hook["entry"].split()
    assert program == "pytest-chaos"
    command = [sys.executable, "-m", "chaos", *words]
    assert subprocess.run([*command, *files], capture_output=True, check=False).returncode == 2
    assert subprocess.run([*command, "deep/good.chaos.yaml"], capture_output=True, check=False).returncode == 0
