"""Known failures: what is accepted, what never is, and the file."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaos import baseline, judge
from chaos.baseline import Baseline, Known
from chaos.errors import ScenarioError
from chaos.results import CellResult, Landed, RunResult
from chaos.scenario import ExpectedFailure
from chaos.verdict import PASS, CellVerdict, fail, unknown
from chaos.whole import wholes

TWICE = "email.send happened 2 times instead of once (step 2)"
KNOWN = Known("s", "cow", "kill", "effects", "effect email.send")
NOWHERE = Path("known.yaml")


def run(number: int = 0, **broke: str) -> RunResult:
    return RunResult(
        campaign="c", scenario="s", strategy="cow", fault="kill", run=number, seed=0, plan="kill@2/after_act",
        planned=1, landed=(Landed("kill", "2/after_act", "killed", {"status": -9}),), broke=tuple(broke),
        checks={"state": PASS, **{name: fail(finding) for name, finding in broke.items()}},
        verdict=CellVerdict.DIVERGED if broke else CellVerdict.RECOVERED,
    )  # fmt: skip


def judged(known: Baseline, *runs: RunResult, expected: tuple[ExpectedFailure, ...] = ()) -> CellResult:
    """Return the cell of *runs* after the baseline *known*."""
    decision = judge.cell_verdict(runs, expected)
    cell = CellResult(
        campaign="c", scenario="s", strategy="cow", fault="kill", verdict=runs[0].verdict, passed=decision.passed,
        why=decision.why, runs=len(runs),
    )  # fmt: skip
    return known.judged(cell, runs, lambda more: judge.cell_verdict(runs, [*expected, *more]))


def test_a_known_failure_is_accepted_and_stays_a_failure() -> None:
    because = Known(*KNOWN.cell, "effects", KNOWN.place, because="issue 12")
    cell = judged(Baseline(NOWHERE, (because,)), run(effects=TWICE), run(1))
    assert not cell.passed and cell.known == {"effects": ("effect email.send",)}
    assert cell.why == "known: effects broke in 1 of 2 runs (issue 12)"


@pytest.mark.parametrize(
    "other",
    [
        Known("s", "cow", "evict", "effects", KNOWN.place), Known("s", "delta", "kill", "effects", KNOWN.place),
        Known("t", "cow", "kill", "effects", KNOWN.place), Known(*KNOWN.cell, "state", KNOWN.place),
        Known(*KNOWN.cell, "effects", "effect tickets.create"),
    ],
)  # fmt: skip
def test_anything_else_is_new(other: Known) -> None:
    assert judged(Baseline(NOWHERE, (other,)), run(effects=TWICE)).known == {}


def test_without_a_place_any_place_is_known() -> None:
    cell = judged(Baseline(NOWHERE, (Known(*KNOWN.cell, "effects"),)), run(effects=TWICE))
    assert cell.known == {"effects": ("",)}


def test_one_new_failure_beside_a_known_one_fails_and_is_named() -> None:
    cell = judged(Baseline(NOWHERE, (KNOWN,)), run(effects=TWICE), run(1, files="workspace/a.csv is missing"))
    assert cell.known == {} and cell.why.endswith("; not in the baseline: files: file workspace/a.csv")


def test_what_proves_nothing_is_never_accepted() -> None:
    known, broken = Baseline(NOWHERE, (KNOWN,), learns=True), run(effects=TWICE)
    blind = msgspec.structs.replace(broken, checks={**broken.checks, "files": unknown("not seen")})
    missed = msgspec.structs.replace(run(1), landed=(), verdict=CellVerdict.NOT_EXERCISED)
    error = msgspec.structs.replace(run(1), verdict=CellVerdict.HARNESS_ERROR, error="no disk")
    for runs in ((blind,), (broken, missed), (broken, error)):
        cell = judged(known, *runs)
        assert not cell.passed and cell.known == {}


def test_a_promise_that_is_unexpectedly_kept_is_not_accepted_with_another_that_breaks() -> None:
    expected = (ExpectedFailure("cow", "kill", ("files",), (), "so it is"),)
    assert judged(Baseline(NOWHERE, (KNOWN,)), run(effects=TWICE), expected=expected).known == {}


def test_what_is_gone_is_told_only_of_cells_that_were_judged() -> None:
    known = Baseline(NOWHERE, (KNOWN, Known("s", "cow", "evict", "effects")))
    cell = judged(known, run())
    assert known.gone([cell], [run()]) == [KNOWN]
    assert known.gone([msgspec.structs.replace(cell, verdict=CellVerdict.UNKNOWN)], [run()]) == []
    assert known.gone([judged(known, run(effects=TWICE))], [run(effects=TWICE)]) == []


def test_what_is_learned_replaces_the_cells_that_ran_and_keeps_reasons() -> None:
    elsewhere = Known("s", "cow", "evict", "files", "file b")
    kept = Known(*KNOWN.cell, "effects", KNOWN.place, because="issue 12")
    known = Baseline(NOWHERE, (elsewhere, kept, Known(*KNOWN.cell, "state", "old")), learns=True)
    broken = run(effects=TWICE, files="workspace/a.csv is missing")
    learned = known.learned([judged(known, broken)], [broken])
    assert learned.known == (elsewhere, kept, Known(*KNOWN.cell, "files", "file workspace/a.csv"))
    assert learned.known[1].because == "issue 12"


def test_parts_are_accepted_and_so_is_the_whole() -> None:
    known = Baseline(NOWHERE, (KNOWN,))
    runs = [run(effects=TWICE), run(1), run(2)]
    parts = [
        msgspec.structs.replace(judged(known, *some), part=number, parts=2, plans="3 plans")
        for number, some in ((1, runs[:1]), (2, runs[1:]))
    ]
    [cell] = wholes(parts, runs)
    assert not cell.passed and cell.known == {"effects": ("effect email.send",)}
    worse = run(2, files="workspace/a.csv is missing")
    [cell] = wholes([parts[0], msgspec.structs.replace(parts[1], passed=False)], [*runs[:2], worse])
    assert not cell.passed and cell.known == {}
    [cell] = wholes(parts[:1], runs[:1])
    assert cell.missing == (2,) and cell.known == {}


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
knowns = st.builds(Known, texts, texts, texts, texts, st.just("") | texts, st.just("") | texts)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(knowns, max_size=3, unique=True), st.booleans())
def test_the_file_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, known: list[Known], strict: bool
) -> None:
    path = tmp_path_factory.mktemp("baseline") / "known.yaml"
    path.write_text(Baseline(path, tuple(known), strict).text(), encoding="utf-8")
    found = baseline.read(path)
    assert found.known == tuple(sorted(known)) and found.strict == strict
    assert [each.because for each in found.known] == [each.because for each in sorted(known)]
    assert found.text() == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("version: 2\nknown: []\n", "a baseline begins with 'version: 1'"),
        ("version: 1\nknown: all\n", r"known.yaml:2:8: known is a list"),
        ("version: 1\nknown: []\nstrict: maybe\n", r"known.yaml:3:9: strict is true or false"),
        ("version: 1\nknow: []\n", r"known.yaml:2:1: unknown field 'know'"),
        ("version: 1\nknown:\n- {scenario: s}\n", r"known.yaml:3:3: missing: strategy, fault, check"),
        ("version: 1\nknown:\n- {scenario: 5, strategy: a, fault: b, check: c}\n", r":3:\d+: scenario is a text"),
        ("version: 1\nknown:\n- text\n", r"known.yaml:3:3: an entry is a mapping"),
        ("version: 1\nknown: [\n", r"known.yaml:\d+:\d+: "),
    ],
)
def test_a_wrong_file_says_where_and_what_would_be_right(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "known.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=told):
        baseline.read(path)
