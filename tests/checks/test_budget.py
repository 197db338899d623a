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


def counting(story: Story, tokens: int, turn: int) -> Story:
    return story.ask(turn, budget_tokens=tokens)


def test_tokens_that_were_forgotten_are_named() -> None:
    right = counting(counting(Story().start(), 0, 0), 15, 1).finish()  # a turn costs 10 x its number + 5
    assert judged(right, right) == PASS
    verdict = judged(counting(counting(Story().start(), 0, 0).crash().start(1), 0, 1).finish(), right)
    assert verdict.finding == "tokens were forgotten: the agent counts 0 tokens at turn 1 (attempt 2); 15 had been used"
    assert verdict.details == ("the reference counts 15, the endpoint billed 15",)
    assert judged(counting(counting(Story().start(), 0, 0), 30, 1).finish(), right) == PASS, "work done twice counts"


def test_shorter_prompts_may_cost_less() -> None:
    right = counting(counting(Story().start(), 0, 0), 99, 1).finish()
    assert judged(counting(counting(Story().start(), 0, 0), 15, 1).finish(), right) == PASS


def test_a_reply_that_was_of_no_use_need_not_be_counted() -> None:
    right = counting(counting(Story().start(), 0, 0), 15, 1).finish()
    story = Story().start().ask(0, budget_tokens=0, spoiled="lost").ask(0, budget_tokens=0).ask(1, budget_tokens=15)
    assert judged(story.finish(), right) == PASS


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
