"""`pytest-chaos completion`: sourced in the shell itself, and asked as the shell asks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.plugins.command_line import main

ASK = """
source <(pytest-chaos completion bash)
complete -p pytest-chaos
ask() {
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9; COMPREPLY=()
  _python_argcomplete pytest-chaos "${@: -1}" "${@: -2:1}"
  echo "${COMPREPLY[@]}"
}
ask pytest-chaos re
ask pytest-chaos explain check.f
ask pytest-chaos check --format g
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A PATH on which `pytest-chaos` is the one of this interpreter."""
    program = tmp_path / "pytest-chaos"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m chaos "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def test_bash_completes_commands_codes_and_choices(env: dict[str, str]) -> None:
    bash = shutil.which("bash") or pytest.skip("no bash on the PATH")
    done = subprocess.run([bash, "--norc", "-c", ASK], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    registered, *answers = done.stdout.splitlines()
    assert registered.endswith("-F _python_argcomplete pytest-chaos")
    assert [set(answer.split()) for answer in answers] == [
        {"record", "report", "replay"},
        {"check.fencing", "check.files", "check.finishes"},
        {"github"},
    ]


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        (
            "zsh",
            "autoload -U compinit; compinit -D; source <(pytest-chaos completion zsh); print $_comps[pytest-chaos]",
        ),
        ("fish", "pytest-chaos completion fish | source; complete -C 'pytest-chaos rep'"),
    ],
)
def test_the_other_shells_take_it(shell: str, words: str, env: dict[str, str]) -> None:
    program = shutil.which(shell) or pytest.skip(f"no {shell} on the PATH")
    done = subprocess.run([program, "-c", words], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.strip(), done.stderr


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(["completion", "tcsh"])
    assert error.value.code == 2 and "choose from" in capsys.readouterr().err
