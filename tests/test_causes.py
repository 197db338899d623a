"""Which failures are the same one: findings of all checks lead to a place, and what varies between runs does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import registry
from chaos.causes import FINISHES, MAX_PLACE, ORDER, Cause, cause, first_broken, normal, place
from chaos.results import RunResult
from chaos.verdict import PASS, CellVerdict, fail


def run(*broke: str, finding: str = "something", **fields: Any) -> RunResult:
    made: dict[str, Any] = {
        "campaign": "c", "scenario": "s", "strategy": "delta", "fault": "kill", "run": 0, "seed": 1,
        "plan": "kill@3/after_act", "planned": 1, "landed": (), "verdict": CellVerdict.DIVERGED, "broke": broke,
        "checks": {"goal": PASS, **{name: fail(finding) for name in broke}},
    }  # fmt: skip
    return RunResult(**{**made, **fields})


@pytest.mark.parametrize(
    ("finding", "where"),
    [
        ("workspace/report.md is missing (and 12 more)", "file workspace/report.md"),
        ("workspace/data/q3.csv has other content (273 bytes instead of 271)", "file workspace/data/q*.csv"),
        ("workspace/run is a link instead of a file", "file workspace/run"),
        ("workspace/a b.txt was to be delivered and is missing", "file workspace/a b.txt"),
        ("the git repository workspace/repo has 3 commits instead of 4", "repository workspace/repo"),
        ("the state at the end differs: session.cwd is \"a\" instead of \"b\"", "state $.session.cwd"),
        ("the state at the end differs: messages[7].content is 1 instead of 2", "state $.messages[*].content"),
        ("the state at the end differs: it is 1 instead of 2", "state"),
        ("the state read back by another process differs: steps is missing", "stored state $.steps"),
        ("attempt 2 resumed at step 8 with a state that the reference had not there (and 4 more)", "state on resume"),
        ("the prompt of turn 8 (attempt 2) differs from message 14 on", "prompt"),
        ("the prompt of turn 8 (attempt 2) carries another goal: 'x'", "goal in the prompt"),
        ("silent damage: flip in Jsonl at delta 8 of 10; the prompt of turn 8 (attempt 2) differs", "prompt"),
        ("email.send happened 2 times instead of once (step 2)", "effect email.send"),
        ("tickets.create never happened (step 4) (and 3 more)", "effect tickets.create"),
        ("a.b came before c.d (step 1)", "order of effects"),
        ("process `/opt/x/bin/python -m engine ../q1.csv` is not running", "process python -m engine ../q*.csv"),
        ("process `/usr/local/bin/python -m engine ../q4.csv` is not running", "process python -m engine ../q*.csv"),
        ("`bash --norc` is in $SANDBOX/workspace instead of $SANDBOX", "directory of bash --norc"),
        ("REGION is not set in `bash`", "variable REGION"),
        ("REGION is 'emea' instead of 'apac' in `bash`", "variable REGION"),
        ("package salesmath-1.0 is not installed", "package salesmath-*"),
        ("12 steps lost by a crash; allowed: 1", "steps lost"),
        ("1 step lost by a crash; allowed: 0", "steps lost"),
        ("recovery took 3.1 s; allowed: 2", "time to recover"),
        ("refused to resume: json.decoder.JSONDecodeError: Expecting value (exit code 1, attempt 5)",
         "error JSONDecodeError"),
        ("refused to resume: a.b.CorruptStore: line 4 (exit code 1, attempt 2)", "error CorruptStore"),
        ("refused to resume: without a word (exit code 3, attempt 2)", "refused to resume"),
        ("did not finish (deadline); last seen at 3/after_act in attempt 2 of 2", "did not finish"),
        ("a promise of somebody else, in 3 of 7 places (attempt 2)", "a promise of somebody else, in * of * places"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_finding_leads_to_its_place(finding: str, where: str) -> None:
    assert place(finding) == where


@given(st.text(), st.integers(0, 10**9), st.integers(0, 10**9), st.uuids(), st.uuids())
def test_what_varies_between_runs_plays_no_part(words: str, one: int, other: int, a: object, b: object) -> None:
    assert place(f"{words} at {one}, {a}") == place(f"{words} at {other}, {b}")


@given(st.text())
def test_a_place_is_short_and_one_line(finding: str) -> None:
    found = place(finding)
    assert len(found) <= MAX_PLACE + len("stored state $.")
    assert len(found.splitlines()) <= 1


@given(st.text())
def test_what_is_normal_stays_so(text: str) -> None:
    assert normal(normal(text)) == normal(text)


def test_a_run_that_kept_its_promises_has_none() -> None:
    assert cause(run(verdict=CellVerdict.RECOVERED)) is None


@pytest.mark.parametrize("verdict", [CellVerdict.NOT_EXERCISED, CellVerdict.HARNESS_ERROR])
def test_a_run_that_proves_nothing_has_none(verdict: CellVerdict) -> None:
    assert cause(run("files", verdict=verdict)) is None


def test_the_worst_promise_stands_for_the_others() -> None:
    assert cause(run("state", "effects", "files", finding="x.txt is missing")) == Cause("delta", "files", "file x.txt")


def test_what_may_break_is_told_only_where_nothing_else_broke() -> None:
    both = run("files", "effects", finding="x.txt is missing", expected=("files",))
    alone = run("files", finding="x.txt is missing", expected=("files",))
    assert [found.check for found in map(cause, (both, alone)) if found] == ["effects", "files"]


@pytest.mark.parametrize("verdict", [CellVerdict.REFUSED, CellVerdict.STUCK])
def test_an_agent_that_stopped_did_not_finish_whatever_else_is_missing(verdict: CellVerdict) -> None:
    assert first_broken(["files", "finishes"], verdict) == FINISHES
    assert first_broken([], verdict) == FINISHES
    assert first_broken(["corruption", "finishes"], verdict) == "corruption"


def test_every_check_of_ours_has_its_place_in_the_order_and_its_words() -> None:
    ours = {*registry.names("checks")} - {FINISHES}
    assert set(ORDER) == ours
    for name in (*ours, FINISHES):
        assert "breaks" not in Cause("delta", name, "").sentence


def test_a_check_of_somebody_else_is_told_by_its_name() -> None:
    assert Cause("mine", "ledger", "row *").sentence == "mine breaks ledger: row *"
    assert first_broken(["ledger", "state"], CellVerdict.DIVERGED) == "state"
