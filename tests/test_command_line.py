"""The command line: what it prints and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import chaos
from chaos import results
from chaos.plugins.command_line import main
from chaos.plugins.commands import GROUPS
from chaos.results import CampaignInfo, CellResult
from chaos.verdict import CellVerdict


def campaign(folder: Path, *cells: CellResult) -> Path:
    """Write a campaign with *cells* into *folder*."""
    info = CampaignInfo(
        campaign="c", seed=8412, began="2026-11-30T06:50:00Z", command="pytest --chaos", versions={}, machine={}
    )
    results.write_info(folder, info)
    for cell in cells:
        results.append(folder, cell)
    return folder


def cell(verdict: CellVerdict = CellVerdict.RECOVERED, passed: bool = True) -> CellResult:
    return CellResult(
        campaign="c", scenario="s", strategy="delta", fault="kill", verdict=verdict, passed=passed, planned=1, landed=1
    )


def test_report_goes_into_the_results_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = campaign(tmp_path / "results", cell())
    assert main(["report", str(folder)]) == 0
    assert capsys.readouterr().out.strip() == str(folder / "report.html")
    assert (folder / "report.html").read_text(encoding="utf-8").lstrip().startswith("<!doctype html>")


def test_report_of_an_interrupted_campaign_goes_where_it_is_told(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "results", cell())
    with (folder / results.CELLS).open("ab") as file:
        file.write(b'{"v": 1, "torn')
    assert main(["report", str(folder), "-o", str(tmp_path / "out.html")]) == 0
    assert (tmp_path / "out.html").exists()
    assert not (folder / "report.html").exists()


def test_the_default_is_the_folder_that_pytest_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign(tmp_path / ".chaos", cell())
    monkeypatch.chdir(tmp_path)
    assert main(["report"]) == 0
    assert (tmp_path / ".chaos/report.html").exists()


def test_a_report_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = campaign(tmp_path / "results", cell())
    assert main(["report", str(folder), "-o", str(tmp_path / "no/such/folder.html")]) == 2
    assert "cannot be written (No such file or directory); name another file with -o" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cells", "code"),
    [([cell()], 0), ([cell(CellVerdict.DIVERGED, passed=False)], 1), ([], 1)],
    ids=["as promised", "broken", "nothing proved"],
)
def test_table_tells_by_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cells: list[CellResult], code: int
) -> None:
    assert main(["table", str(campaign(tmp_path, *cells))]) == code
    assert "seed 8412" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["report", "table"])
def test_a_folder_without_results_is_wrong_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert main([command, str(tmp_path)]) == 2
    assert "no campaign here" in capsys.readouterr().err


def test_scenarios_prints_a_folder_that_exists(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenarios"]) == 0
    assert Path(capsys.readouterr().out.strip()).is_dir()


def test_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert "properties" in json.loads(capsys.readouterr().out)


def test_check_reports_every_wrong_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.chaos.yaml").write_text("version: 1\nscenari: oops\n", encoding="utf-8")
    shipped = Path(chaos.__file__).parent / "scenarios/kill.chaos.yaml"
    assert main(["check", str(tmp_path / "bad.chaos.yaml"), str(shipped), str(tmp_path / "none.yaml")]) == 2
    printed = capsys.readouterr()
    assert "bad.chaos.yaml" in printed.err and "no such file" in printed.err
    assert f"{shipped}: ok" in printed.out


def test_usage_errors_end_with_2() -> None:
    with pytest.raises(SystemExit) as error:
        main(["no-such-command"])
    assert error.value.code == 2


def test_the_module_runs_and_says_its_version() -> None:
    done = subprocess.run([sys.executable, "-m", "chaos", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("pytest-chaos ")


def test_version_does_not_load_the_harness() -> None:
    code = (
        "import sys; from chaos.plugins.command_line import main\n"
        "try: main(['--version'])\n"
        "except SystemExit: print([m for m in ('jinja2', 'msgspec', 'pydantic', 'langgraph') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_command_is_in_the_help_and_has_one_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], *([name] for names in GROUPS.values() for name in names)):
        with pytest.raises(SystemExit) as error:
            main([*words, "--help"])
        assert error.value.code == 0
        shown = capsys.readouterr().out
        assert max(map(len, shown.splitlines())) <= 120
        for name in words or [name for names in GROUPS.values() for name in names]:
            assert f" {name}" in shown


def test_every_module_of_a_command_is_one() -> None:
    folder = Path(chaos.__file__).parent / "plugins" / "commands"
    named = {name.replace("-", "_") for names in GROUPS.values() for name in names}
    assert named == {path.stem for path in folder.glob("*.py")} - {"__init__"}


def test_help_loads_no_more_than_the_commands() -> None:
    code = (
        "import sys; from chaos.plugins.command_line import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print([m for m in ('pytest', 'msgspec', 'pydantic', 'argcomplete') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_ctrl_c_is_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from chaos.plugins.commands import scenarios

    def interrupted(options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(scenarios, "run", interrupted)
    assert main(["scenarios"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_bench_measures_by_a_real_campaign(tmp_path: Path) -> None:
    """The shortest one: its rates say nothing, but that all points were tested and nothing is left."""
    words = ["bench", "--steps", "13", "--agent", "loop", "--format", "json"]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "chaos", *words], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rates = json.loads(done.stdout)["rates"]["loop"]
    assert rates["fast"]["points"] > rates["real"]["points"] > 0 and rates["fast"]["distinct"] > 0
    assert all(rate["per_second"] > 0 for rate in rates.values())
    assert list(tmp_path.iterdir()) == []


def test_bench_refuses_what_it_cannot_measure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--steps", "2"]) == 2
    assert "--steps takes a number from 13 to 1000, not 2" in capsys.readouterr().err
