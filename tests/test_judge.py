from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import registry
from chaos.events.seen import Effected
from chaos.judge import cell_verdict, disagreements, judge, run_verdict
from chaos.record import Record
from chaos.results import RunResult
from chaos.scenario import ExpectedFailure
from chaos.verdict import PASS, CellVerdict, Outcome, Verdict, fail, unknown
from tests.journals import (
    ALL_CHECKS,
    FACTS,
    SEEN,
    STEPS,
    TERMS,
    Story,
    recovered,
    reference,
    refusing,
    seen,
    state,
    stuck,
    sublists,
)


def failing(run: Record, against: Record | None = None) -> set[str]:
    verdicts = judge(run, against or reference().record, ALL_CHECKS, TERMS, FACTS)
    assert not [name for name, verdict in verdicts.items() if verdict.outcome is Outcome.UNKNOWN]
    return {name for name, verdict in verdicts.items() if verdict.outcome is Outcome.FAIL}


# judge


def test_every_check_of_the_folder_is_tested_here() -> None:
    assert set(ALL_CHECKS) <= set(registry.names("checks"))


@given(st.sampled_from([reference(), recovered(), recovered(3, 2), recovered(0)]))
def test_a_run_judged_against_itself_passes_every_check(story: Story) -> None:
    assert failing(story.record, story.record) == set()


@given(at=st.integers(0, STEPS - 1), data=st.data())
def test_a_run_that_lost_at_most_one_step_passes_every_check(at: int, data: st.DataObject) -> None:
    assert failing(recovered(at, data.draw(st.integers(max(0, at - 1), at))).record) == set()


@given(data=st.data())
def test_a_duplicate_effect_fails_exactly_effects(data: st.DataObject) -> None:
    events = list(reference().events)
    effect = data.draw(st.sampled_from([event for event in events if isinstance(event, Effected)]))
    later = data.draw(st.integers(events.index(effect) + 1, len(events)))
    events.insert(later, effect)
    assert failing(Record(events)) == {"effects"}


@given(kept=st.sampled_from(sublists(len(SEEN.files))))
def test_removed_files_fail_exactly_files_unless_they_were_to_be_delivered(kept: tuple[int, ...]) -> None:
    files = tuple(SEEN.files[index] for index in kept)
    expected = {"files"} if len(files) < len(SEEN.files) else set()
    if FACTS.deliverable not in {entry.path for entry in files}:
        expected.add("goal")
    assert failing(Story().start().steps(0).finish(seen=seen(files=files)).record) == expected


@given(st.permutations(SEEN.processes))
def test_the_order_of_independent_processes_changes_nothing(processes: list[object]) -> None:
    assert failing(Story().start().steps(0).finish(seen=seen(processes=tuple(processes))).record) == set()


def test_a_run_that_refused_fails_finishes_and_leaves_the_rest_open() -> None:
    verdicts = judge(refusing().record, reference().record, ALL_CHECKS, TERMS, FACTS)
    by_outcome = {outcome: {n for n, v in verdicts.items() if v.outcome is outcome} for outcome in Outcome}
    assert by_outcome[Outcome.FAIL] == {"finishes"}
    assert by_outcome[Outcome.PASS] == {"corruption"}


def test_a_check_that_raises_is_unknown_and_one_that_does_not_exist_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def check(self, *_: object) -> Verdict:
            raise ZeroDivisionError("oops")

    load = registry.load
    monkeypatch.setattr(registry, "load", lambda kind, name: Broken if name == "files" else load(kind, name))
    verdicts = judge(reference().record, reference().record, ["files", "filez", "goal"], TERMS, FACTS)
    assert verdicts["files"] == unknown("the check raised ZeroDivisionError: oops")
    assert verdicts["filez"].outcome is Outcome.UNKNOWN
    assert verdicts["goal"] == PASS


# run_verdict


@pytest.mark.parametrize(
    ("verdicts", "story", "expected"),
    [
        ({"state": PASS}, recovered(), CellVerdict.RECOVERED),
        ({"state": PASS, "recovery": fail("x")}, recovered(), CellVerdict.RECOVERED_WITH_LOSS),
        ({"state": fail("x"), "recovery": fail("x")}, recovered(), CellVerdict.DIVERGED),
        ({"state": unknown("x"), "files": fail("x")}, recovered(), CellVerdict.DIVERGED),
        ({"state": unknown("x"), "files": PASS}, recovered(), CellVerdict.UNKNOWN),
        ({"state": unknown("x"), "recovery": fail("x")}, recovered(), CellVerdict.UNKNOWN),
        ({}, recovered(), CellVerdict.UNKNOWN),
        ({"finishes": fail("x"), "effects": fail("x")}, refusing(), CellVerdict.REFUSED),
        ({"finishes": fail("x"), "state": unknown("x")}, stuck(), CellVerdict.STUCK),
        ({"state": PASS}, stuck(), CellVerdict.STUCK),  # nobody asked whether it finishes
        ({"state": PASS}, Story().start().steps(0), CellVerdict.UNKNOWN),  # the journal has no end
    ],
)
def test_run_verdict(verdicts: dict[str, Verdict], story: Story, expected: CellVerdict) -> None:
    assert run_verdict(verdicts, story.record, 1, 1) is expected


@given(planned=st.integers(1, 4), data=st.data())
def test_a_fault_that_did_not_land_proves_nothing(planned: int, data: st.DataObject) -> None:
    landed = data.draw(st.integers(0, planned - 1))
    assert run_verdict({"state": PASS}, recovered().record, planned, landed) is CellVerdict.NOT_EXERCISED


# disagreements


def test_equal_references_agree() -> None:
    assert disagreements(reference().record, reference().record) == ()


def test_what_differs_between_two_references_is_named_by_kind() -> None:
    other = Story().start().steps(0, 3).step(3, twist={2: "?"}).effect("email.send:bob").finish(
        snapshot={**state(STEPS), "now": 7}, seen=seen(files=SEEN.files[1:], processes=(), packages=())
    )  # fmt: skip
    kinds = [line.partition(":")[0] for line in disagreements(reference().record, other.record)]
    assert list(dict.fromkeys(kinds)) == ["state", "prompts", "effects", "files", "processes", "environment"]


def test_what_only_one_reference_has_is_a_disagreement() -> None:
    lines = disagreements(reference().record, Story().start().steps(0).finish(seen=None).record)
    assert lines == ("final observation: in one run only",)


def test_many_disagreements_are_told_in_few_lines() -> None:
    other = Story().start().steps(0).finish(seen=seen(files=tuple(
        msgspec.structs.replace(SEEN.files[0], path=f"workspace/{n}") for n in range(100)
    )))  # fmt: skip
    assert disagreements(reference().record, other.record)[-1].startswith("… ")


# cell_verdict


def ran(verdict: CellVerdict, *broke: str, open_: tuple[str, ...] = ()) -> RunResult:
    checks = {"state": PASS, **{name: fail("x") for name in broke}, **{name: unknown("x") for name in open_}}
    return RunResult(
        campaign="c", scenario="s", strategy="delta", fault="kill", run=0, seed=1, plan="kill@1/after_act", planned=1,
        landed=(), checks=checks, verdict=verdict,
    )  # fmt: skip


EXPECTED = ExpectedFailure("delta", "", ("files",), ("processes",), "it keeps messages only")
RECOVERED = ran(CellVerdict.RECOVERED)
DIVERGED = ran(CellVerdict.DIVERGED, "files")


def test_a_cell_passes_when_all_runs_recovered() -> None:
    assert cell_verdict([RECOVERED], []) == (True, False, "the run recovered")
    assert cell_verdict([RECOVERED] * 3, []) == (True, False, "all 3 runs recovered")


def test_a_cell_passes_when_exactly_the_expected_broke() -> None:
    why = "broke as expected: files, processes (it keeps messages only)"
    assert cell_verdict([DIVERGED, ran(CellVerdict.DIVERGED, "processes")], [EXPECTED]) == (True, True, why)
    assert cell_verdict([RECOVERED, DIVERGED], [EXPECTED]).passed


def test_an_unexpected_failure_fails_the_cell() -> None:
    decision = cell_verdict([DIVERGED, ran(CellVerdict.DIVERGED, "files", "effects")], [EXPECTED])
    assert decision == (False, False, "effects broke in 1 of 2 runs")


def test_an_unexpected_recovery_fails_the_cell_unless_single_runs_are_replayed() -> None:
    decision = cell_verdict([RECOVERED, ran(CellVerdict.DIVERGED, "processes")], [EXPECTED])
    assert decision == (False, False, "unexpectedly kept: files; remove it from expected_failures")
    assert cell_verdict([RECOVERED], [EXPECTED], strict=False).passed


def test_what_may_break_may_be_kept() -> None:
    assert cell_verdict([RECOVERED], [replace(EXPECTED, breaks=())]) == (True, False, "the run recovered")


def test_checks_that_could_not_judge_an_expected_refusal_are_not_held_against_it() -> None:
    refusal = ran(CellVerdict.REFUSED, "finishes", open_=("state", "files"))
    assert cell_verdict([refusal], [replace(EXPECTED, breaks=("finishes",))]).passed
    assert cell_verdict([refusal], [EXPECTED]).why == "finishes broke in 1 of 1 runs"


def test_checks_that_could_not_judge_a_finished_run_are() -> None:
    decision = cell_verdict([ran(CellVerdict.DIVERGED, "files", open_=("goal",))], [EXPECTED])
    assert decision == (False, False, "goal could not judge 1 of 1 runs")


def test_a_run_that_stopped_needs_finishes_to_be_expected_though_nobody_checked_it() -> None:
    assert not cell_verdict([ran(CellVerdict.STUCK)], []).passed


VERDICTS = st.sampled_from(list(CellVerdict))
NAMES = st.sets(st.sampled_from(ALL_CHECKS))
RUNS = st.builds(lambda verdict, names: ran(verdict, *names), VERDICTS, NAMES)
EXPECTATIONS = st.lists(
    st.builds(lambda breaks, may: ExpectedFailure("delta", "", tuple(breaks), tuple(may), "because"), NAMES, NAMES),
    max_size=2,
)


@given(EXPECTATIONS, st.booleans())
def test_a_cell_in_which_nothing_ran_never_passes(expected: list[ExpectedFailure], strict: bool) -> None:
    assert not cell_verdict([], expected, strict=strict).passed


@given(
    st.lists(RUNS, max_size=3),
    st.sampled_from([CellVerdict.NOT_EXERCISED, CellVerdict.UNKNOWN, CellVerdict.HARNESS_ERROR]),
    EXPECTATIONS,
)
def test_a_run_that_proves_nothing_never_passes(
    runs: list[RunResult], verdict: CellVerdict, expected: list[ExpectedFailure]
) -> None:
    assert not cell_verdict([*runs, ran(verdict)], expected).passed


@given(st.lists(RUNS, min_size=1, max_size=4))
def test_without_expected_failures_only_recovered_runs_pass(runs: list[RunResult]) -> None:
    clean = all(run.verdict is CellVerdict.RECOVERED and set(run.checks.values()) == {PASS} for run in runs)
    assert cell_verdict(runs, []).passed == clean


@given(st.lists(RUNS, min_size=1, max_size=4), EXPECTATIONS)
def test_the_order_of_runs_is_nothing_and_every_failure_has_a_reason(
    runs: list[RunResult], expected: list[ExpectedFailure]
) -> None:
    decision = cell_verdict(runs, expected)
    assert decision == cell_verdict(runs[::-1], expected)
    assert decision.why
    assert decision.passed or not decision.expected
