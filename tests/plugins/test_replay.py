"""`pytest-chaos replay`: a real failure, once more, by the command that the results hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chaos import results
from chaos.plugins.command_line import main
from chaos.plugins.commands.replay import failures_of
from chaos.results import Campaign, CellResult
from chaos.verdict import CellVerdict
from tests.plugins.project import FOREIGN, LATE, Project, scenario
from tests.test_command_line import campaign


def chaos(project: Project, *words: str, folder: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line in *project*, or in a *folder* below it."""
    return subprocess.run(
        [sys.executable, "-m", "chaos", *words],
        cwd=project.folder / folder,
        env={**project._env(), "PYTEST_ADDOPTS": " ".join(f"-p no:{name}" for name in FOREIGN)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_failure_is_replayed_and_a_mended_one_too(project: Project) -> None:
    project.write("late.chaos.yaml", scenario("late", faults=f"[{LATE}]", runs=1))
    assert project.run("--chaos", "late.chaos.yaml").code == 1
    [cell] = results.read(project.folder / ".chaos").cells
    again = chaos(project, "replay")
    assert again.returncode == 1, again.stdout + again.stderr
    title, command, *_ = again.stdout.splitlines()
    assert title.startswith("cow x late (late): diverged: effects: email.send happened 2 times")
    assert command == cell.replay, "the command is shown first"
    assert again.stdout.rstrip().endswith("replayed: it fails again")
    assert [run.plan for run in results.read(project.folder / ".chaos/replay").runs] == ["late@2/after_act"]
    assert results.read(project.folder / ".chaos").cells == (cell,), "the campaign is as it was"

    expected = "expected_failures: [{strategy: cow, breaks: [effects], because: it has no key}]"
    project.write("late.chaos.yaml", scenario("late", faults=f"[{LATE}]", runs=1, more=expected))
    (project.folder / "elsewhere").mkdir()
    mended = chaos(project, "replay", "../.chaos", "--cell", "late[cow-late]", folder="elsewhere")
    assert mended.returncode == 0 and f"cd {project.folder}; pytest" in mended.stdout, mended.stdout + mended.stderr
    assert "it does not fail any more" in mended.stdout


def cell(strategy: str, verdict: CellVerdict, *broke: str, passed: bool = False) -> CellResult:
    return CellResult(
        campaign="c",
        scenario="s",
        strategy=strategy,
        fault="kill",
        verdict=verdict,
        passed=passed,
        findings=dict.fromkeys(broke, "it broke"),
        why="why",
        replay=f"pytest --chaos s.chaos.yaml --chaos-strategy {strategy}",
    )


CELLS = (
    cell("ours", CellVerdict.HARNESS_ERROR),
    cell("stuck", CellVerdict.STUCK, "finishes"),
    cell("files", CellVerdict.DIVERGED, "files", "state"),
    cell("silent", CellVerdict.DIVERGED, "corruption", "state"),
    cell("fine", CellVerdict.RECOVERED, passed=True),
)


def test_the_worst_failure_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = campaign(tmp_path / ".chaos", *CELLS)
    found: Campaign = results.read(folder)
    assert [each.strategy for each in failures_of(found)] == ["silent", "files", "stuck", "ours"]
    assert main(["replay", str(folder), "--list"]) == 0
    assert capsys.readouterr().out.startswith("1  silent x kill (s): diverged: corruption: it broke")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cell", "filse-kill"], "no cell 'filse-kill'; did you mean 'files x kill'?"),
        (["--failure", "9"], "there are 4 failures, not 9; --list shows them"),
        (["--failure", "0"], "--list shows them"),
        ([], "s.chaos.yaml: not below"),  # the scenario is gone
    ],
)
def test_what_cannot_be_replayed_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    folder = campaign(tmp_path / ".chaos", *CELLS)
    assert main(["replay", str(folder), *words]) == 2
    assert said in capsys.readouterr().err


def test_nothing_to_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = campaign(tmp_path / ".chaos", CELLS[-1])
    assert main(["replay", str(folder)]) == 2
    assert "nothing failed that was not expected" in capsys.readouterr().out
    assert main(["replay", str(tmp_path)]) == 2
    assert "no campaign here" in capsys.readouterr().err
