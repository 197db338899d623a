"""`pytest-chaos demo`: a campaign with the scenarios of the package, from anywhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import chaos
from chaos import results
from chaos.plugins.command_line import main
from chaos.plugins.commands import demo
from tests.plugins.project import Project

ROOT = Path(__file__).parents[2]


def test_it_runs_in_a_folder_of_its_own_and_says_where_the_report_is(project: Project) -> None:
    """One cell of it: the environment narrows a campaign down as it does any other."""
    project.write("pytest.ini", "[pytest]\naddopts = --no-such-option\n")  # of a project around it, which is no matter
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "demo", "first/look", "--jobs", "1"],
        cwd=project.folder,
        env={**project._env(), "CHAOS_STRATEGY": "delta", "CHAOS_FAULT": "kill", "CHAOS_SEED": "8412"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    folder = project.folder / "first" / "look"
    report = folder / ".chaos" / "report.html"
    assert f"the report: {report}\n" in done.stdout and report.exists()
    assert [path.name for path in folder.iterdir()] == [".chaos"], "nothing else is left"
    [cell] = results.read(folder / ".chaos").cells
    assert (cell.strategy, cell.fault, cell.passed) == ("delta", "kill", True)
    assert not project.sandboxes()


def test_its_folder_is_a_new_temporary_one_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    first, second = demo._folder(None), demo._folder(None)
    assert first != second and first.parent == tmp_path and first.name.startswith(demo.PREFIX)


def test_a_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["demo", str(tmp_path / "file" / "x")]) == 2
    assert "cannot be made" in capsys.readouterr().err


def test_its_scenarios_are_there_and_those_of_make_demo() -> None:
    shipped = Path(chaos.__file__).parent / "scenarios"
    assert all((shipped / f"{name}.chaos.yaml").is_file() for name in demo.SCENARIOS)
    makefile = ROOT / "Makefile"
    if makefile.exists():
        wanted = re.search(r"^DEMO := (.+)$", makefile.read_text(encoding="utf-8"), re.MULTILINE)
        assert wanted is None or wanted[1].split() == list(demo.SCENARIOS)
