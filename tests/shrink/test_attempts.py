"""What makes two failures the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from chaos.results import RunResult
from chaos.shrink.attempts import failures
from chaos.verdict import CellVerdict, Outcome, Verdict


def run(finding: str, check: str = "effects", verdict: CellVerdict = CellVerdict.DIVERGED, **more: Any) -> RunResult:
    made = RunResult(
        campaign="c", scenario="s", strategy="x", fault="kill", run=0, seed=1, plan="kill@1/after_act", planned=1,
        landed=(), checks={check: Verdict(Outcome.FAIL, finding)}, verdict=verdict, broke=(check,),
    )  # fmt: skip
    return msgspec.structs.replace(made, **more)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "email.send happened 2 times instead of once (step 2)",
            "email.send happened 3 times instead of once (step 11)",
        ),
        ("2 steps lost by a crash; allowed: 1", "1 step lost by a crash; allowed: 1"),
        ("workspace/data is missing (and 4 more)", "tmp/control-sum is missing"),
        ("process `python -m engine q1.csv` is not running", "process `sh` is not running"),
        (
            "the state differs at $.messages[3].content: 'a' instead of 'b'",
            "the state differs at $.x: '' instead of 'c'",
        ),
        ("digest 0123456789abcdef", "digest 55550000aaaa"),
    ],
)
def test_what_is_particular_to_a_run_makes_no_difference(one: str, other: str) -> None:
    assert failures(run(one)) == failures(run(other)) != ()


@pytest.mark.parametrize(
    "other",
    [
        run("payments.charge happened 2 times instead of once (step 2)"),
        run("email.send never happened (step 2)"),
        run("email.send happened 2 times instead of once (step 2)", check="state"),
        run("email.send happened 2 times instead of once (step 2)", verdict=CellVerdict.REFUSED),
    ],
)
def test_another_effect_check_or_verdict_is_another_failure(other: RunResult) -> None:
    own = failures(run("email.send happened 2 times instead of once (step 2)"))
    assert not set(own) & set(failures(other))


@pytest.mark.parametrize("verdict", [CellVerdict.NOT_EXERCISED, CellVerdict.UNKNOWN, CellVerdict.HARNESS_ERROR])
def test_what_proves_nothing_is_no_failure(verdict: CellVerdict) -> None:
    assert failures(run("email.send happened 2 times", verdict=verdict)) == ()


def test_what_the_scenario_expects_is_no_failure_and_what_breaks_besides_is() -> None:
    both = run("twice", broke=("effects", "state"), expected=("effects",))
    both = msgspec.structs.replace(both, checks={**both.checks, "state": Verdict(Outcome.FAIL, "other")})
    (only,) = failures(both)
    assert (only.check, only.what) == ("state", "other")


def test_an_end_that_no_check_stands_for_is_one() -> None:
    (stuck,) = failures(run("", broke=(), checks={}, verdict=CellVerdict.STUCK))
    assert (stuck.check, stuck.what) == ("finishes", "stuck")
