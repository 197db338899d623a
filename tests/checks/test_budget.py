from __future__ import annotations

from dataclasses import replace

from chaos.checks.budget import Budget
from chaos.targets import Facts
from chaos.verdict import PASS, Outcome, Verdict
from tests.journals import FACTS, GOAL, TERMS, Story, recovered, reference, refusing


def judged(story: Story, against: Story | None = None, facts: Facts = FACTS) -> Verdict:
    return Budget().check(story.record, (against or reference()).record, TERMS, facts)


def test_a_recovered_run_counts_on() -> None:
    assert judged(recovered()) == PASS


def test_work_done_twice_may_be_counted_twice() -> None:
    assert judged(Story().start().steps(0, 2).crash().start(2).step(2, budget=9).steps(3).finish()) == PASS


def test_a_counter_that_was_reset_is_named() -> None:
    verdict = judged(Story().start().steps(0, 2).crash().start(2).step(2, budget=0).step(3, budget=1).finish())
    assert verdict.outcome is Outcome.FAIL
    assert verdict.finding == (
        "the budget was reset: the agent counts 0 steps used at turn 2 (attempt 2); the reference had used 2"
    )


def test_a_counter_that_was_lost_is_named() -> None:
    verdict = judged(Story().start().steps(0, 2).crash().start(2).step(2, budget=None).steps(3).finish())
    assert verdict.finding == "the agent reports no budget at turn 2 (attempt 2); the reference had used 2"


def test_a_broken_cap_is_told_even_of_a_run_that_did_not_finish() -> None:
    story = Story().start().ask(0)
    for _ in range(8):
        story.ask(0)
    verdict = judged(story.exit(1).stop("gave up"))
    assert verdict.finding == "9 model requests were answered; the cap is 8"
    assert verdict.details == ("8 of them had been answered before",)


def test_unknown() -> None:
    assert judged(refusing()).finding == "the agent did not finish"
    silent = Story().start().step(0, budget=None).finish()
    assert judged(silent, silent, Facts(goal=GOAL)).outcome is Outcome.UNKNOWN
    assert judged(silent, silent, replace(FACTS, max_requests=1)) == PASS
