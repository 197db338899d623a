"""`pytest-chaos explain`: the page of a code, or what there is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chaos import codes
from chaos.plugins.command_line import main


def test_the_page_of_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "check.effects"]) == 0
    assert capsys.readouterr().out.strip() == codes.page("check.effects").text.strip()


def test_without_a_code_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[: len(codes.all())]] == list(codes.all())
    assert all(len(line.split()) > 2 for line in lines[: len(codes.all())])


def test_a_group_lists_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "harness"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines and all(line.startswith("harness.") for line in lines)


def test_a_typing_error_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "check.efects"]) == 2
    assert capsys.readouterr().err == "no code 'check.efects'; did you mean 'check.effects'?\n"


def test_an_error_of_a_command_names_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "[harness.no-campaign]" in said and "`pytest-chaos explain harness.no-campaign`" in said
    assert main(["explain", "harness.no-campaign"]) == 0


def test_it_loads_no_agent() -> None:
    code = (
        "import sys; from chaos.plugins.command_line import main\n"
        "main(['explain', 'check.files']); print([m for m in ('pytest', 'jinja2', 'langgraph') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
