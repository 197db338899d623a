"""The self-test: a few of its agents for real, by the command; who tests the tester of the tester; what is printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from chaos import leftovers
from chaos.plugins import selftest
from chaos.plugins.command_line import main
from chaos.plugins.commands.selftest import counted, lines
from chaos.plugins.selftest import Row, Verdict, known
from chaos.targets.planted import bug_names, correct
from chaos.targets.planted.catch import KILL, PAYMENT, STEPS
from chaos.targets.planted.correct import CORRECT, Correct, at

BUG = "effect_without_key"


def told(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, object]]:
    """Return the exit code of the command with *words*, and the object that it printed."""
    code = main(["selftest", "--format", "json", *words])
    return code, json.loads(capsys.readouterr().out)


def test_there_are_as_many_agents_as_it_is_worth_something_with() -> None:
    assert len(bug_names()) >= 30 and len(CORRECT) >= 10
    assert len(set(known())) == len(known())


def test_bugs_are_caught_and_correct_agents_pass_and_nothing_stays_behind(tmp_path: Path) -> None:
    words = ["selftest", "--jobs", "2", "--only", f"loop_that_streams,{BUG},environment_forgotten"]
    env = {**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "200"}
    done = subprocess.run([sys.executable, "-m", "chaos", *words], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[1][:5] == [BUG, "effects", "caught", "passes", f"kill@{PAYMENT}/after_act"]
    assert rows[2][:4] == ["environment_forgotten", "environment", "caught", "passes"]
    assert rows[5][:3] == ["loop_that_streams", "passes", "stream_cut"]
    assert done.stdout.splitlines()[-1].startswith(
        "2 of 2 bugs caught, 0 missed; 0 false alarms (correct agents: 1, siblings: 2); 0 not tried; "
    )
    assert sorted(line.partition("] ")[2] for line in done.stderr.splitlines()) == [
        f"{BUG}: caught",
        "environment_forgotten: caught",
        "loop_that_streams: passes",
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_bug_whose_check_is_switched_off_is_missed(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = told(["--only", BUG, "--without", "effects"], capsys)
    assert code == 1
    assert found["counts"] == {"caught": 0, "missed": 1, "false_alarms": 0, "not_tried": 0}
    [row] = found["bugs"]  # type: ignore[misc]
    assert (row["verdict"], row["why"], row["sibling"]) == ("missed", "effects was not asked", "passes")


def test_another_check_than_the_named_one_is_no_catch(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent with the bug is replaced by one with another bug, which breaks another check under the same plan."""
    scenario = selftest.Catch.scenario
    monkeypatch.setattr(
        selftest.Catch, "scenario", lambda catch, bug, checks=(): scenario(catch, "environment_forgotten", checks)
    )
    code, found = told(["--only", BUG], capsys)
    [row] = found["bugs"]  # type: ignore[misc]
    assert (code, row["verdict"], row["why"]) == (1, "missed", "effects says PASS")
    assert (row["sibling"], found["counts"]["false_alarms"]) == ("false alarm", 1)  # type: ignore[index]
    assert "environment FAIL REPORT_QUARTER is not set" in row["sibling_why"]


def test_a_correct_agent_that_is_broken_on_purpose_is_a_false_alarm(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Correct(
        "broken", "pays twice", {"planted": {"bug": BUG, "steps": STEPS}}, "loop", ({**KILL, "at": at("after_act")},)
    )
    monkeypatch.setattr(correct, "CORRECT", (broken,))
    code, found = told(["--only", "broken"], capsys)
    [row] = found["correct"]  # type: ignore[misc]
    assert (code, row["verdict"], found["counts"]["false_alarms"]) == (1, "false alarm", 1)  # type: ignore[index]
    assert "effects FAIL payments.charge happened 2 times instead of once" in row["why"]


def test_what_the_machine_cannot_do_is_not_tried_and_no_pass(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from chaos.campaign import Runner

    monkeypatch.setattr(Runner, "lacking", lambda runner, cell: "no disk here")
    code, found = told(["--only", f"{BUG},langgraph"], capsys)
    assert code == 1, "nothing could be tried"
    assert found["counts"] == {"caught": 0, "missed": 0, "false_alarms": 0, "not_tried": 2}
    assert [row["why"] for row in (*found["bugs"], *found["correct"])] == ["no disk here", "kill-0: no disk here"]  # type: ignore[misc]


def test_a_worker_that_dies_is_no_pass(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "tried", lambda *given: os._exit(9))
    assert main(["selftest", "--only", BUG]) == 1
    assert f"the process that tried {BUG} ended with 9" in capsys.readouterr().err
    leftovers.sweep()  # what the dead worker had


@pytest.mark.parametrize(
    ("option", "wrong", "near"), [("--only", "no_fsink", "no_fsync"), ("--without", "efects", "effects")]
)
def test_an_unknown_name_is_answered_with_a_near_one(
    option: str, wrong: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["selftest", option, wrong]) == 2
    assert f"did you mean {near!r}?" in capsys.readouterr().err


def row(verdict: Verdict, **more: str) -> Row:
    return Row(
        **{"name": "a_bug", "does": "It does.", "case": "kill@1/x", "check": "state", "verdict": verdict, **more}
    )  # type: ignore[arg-type]


def test_a_sibling_counts_as_a_correct_agent() -> None:
    rows = [
        row(Verdict.CAUGHT, sibling=Verdict.FALSE_ALARM),
        row(Verdict.FALSE_ALARM, check=""),
        row(Verdict.NOT_TRIED),
    ]
    assert counted(rows) == {"caught": 1, "missed": 0, "false_alarms": 2, "not_tried": 1}


def test_on_a_narrow_screen_what_it_does_stands_below() -> None:
    rows = [row(Verdict.MISSED, why="state says PASS", sibling=Verdict.FALSE_ALARM, sibling_why="files FAIL")]
    assert list(lines(rows, 3.0, 40)) == [
        "bug    check  verdict  sibling      case\n    what it does",
        "a_bug  state  missed   false alarm  kill@1/x\n    It does.",
        "",
        "a_bug: missed: state says PASS",
        "a_bug's sibling: false alarm: files FAIL",
        "0 of 1 bugs caught, 1 missed; 1 false alarms (correct agents: 0, siblings: 1); 0 not tried; 3 s",
    ]
    assert list(lines(rows, 3.0, 90))[1] == "a_bug  state  missed   false alarm  kill@1/x  It does."
