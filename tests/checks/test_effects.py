from __future__ import annotations

from dataclasses import replace

from chaos.checks import Terms
from chaos.checks.effects import Effects
from chaos.verdict import PASS, Outcome, Verdict
from tests.journals import CHARGE, EMAIL, FACTS, TERMS, Story, recovered, reference, refusing


def judged(story: Story, terms: Terms = TERMS, against: Story | None = None) -> Verdict:
    return Effects().check(story.record, (against or reference()).record, terms, FACTS)


def twice() -> Story:
    """A run that is killed after the e-mail went out and sends it again."""
    return Story().start().step(0).act(1).crash().start(1).steps(1).finish()


def test_a_recovered_run_has_every_effect_once() -> None:
    assert judged(recovered()) == PASS


def test_a_duplicate_is_named_with_the_step_of_the_second() -> None:
    verdict = judged(twice())
    assert verdict.outcome is Outcome.FAIL
    assert verdict.finding == "email.send happened 2 times instead of once (step 1)"
    assert verdict.details[1] == "email.send in attempt 2 (step 1), no idempotency key: alice"


def test_what_may_happen_once_at_most_may_not_happen_twice_in_a_crash_free_run() -> None:
    facts = replace(FACTS, most=(("email.send", 1),))
    crash_free = Story().start().step(0).act(1).effect(EMAIL).steps(2).finish().record
    alone = Effects().check(crash_free, crash_free, TERMS, facts)
    assert alone.finding == "email.send happened 2 times; once is right (step 1)"
    assert Effects().check(crash_free, crash_free, TERMS, FACTS) == PASS
    assert Effects().check(reference().record, reference().record, TERMS, facts) == PASS


def test_at_least_once_allows_duplicates_and_nothing_else() -> None:
    lenient = Terms(effects="at-least-once")
    assert judged(twice(), lenient) == PASS
    assert judged(Story().start().steps(0, 3).finish(), lenient).outcome is Outcome.FAIL
    assert judged(Story().start().steps(0).effect("email.send:bob").finish(), lenient).outcome is Outcome.FAIL


def test_a_call_that_the_service_recognised_is_no_effect() -> None:
    story = Story().start().step(0).act(1).crash().start(1).effect(EMAIL, deduplicated=True)
    assert judged(story.step(1, effects=False).steps(2).finish()) == PASS


def test_a_lost_effect_is_named() -> None:
    verdict = judged(Story().start().step(0).step(1, effects=False).steps(2).finish())
    assert verdict.finding == "email.send never happened (step 1)"


def test_an_effect_done_once_instead_of_twice_is_lost_too() -> None:
    against = Story().start().steps(0).effect(EMAIL).finish()
    assert judged(reference(), against=against).finding == "email.send happened once instead of 2 times (step 3)"


def test_an_unexpected_effect_is_named() -> None:
    verdict = judged(Story().start().steps(0).effect("tickets.close:7").finish())
    assert verdict.finding == "tickets.close happened (step 3), which the reference never did"


def test_the_order_of_first_occurrences_counts() -> None:
    story = Story().start().step(0).effect(CHARGE)
    for number in range(1, 4):
        story.step(number, effects=number == 1)
    assert judged(story.finish()).finding == "payments.charge came before email.send (step 0)"


def test_what_the_goal_needs_must_be_there_even_if_the_reference_left_it_out() -> None:
    facts = replace(FACTS, required=(*FACTS.required, "email.send:bob"))
    verdict = Effects().check(reference().record, reference().record, TERMS, facts)
    assert verdict.finding == "email.send:bob never happened; the goal needs it"


def test_a_duplicate_of_a_run_that_did_not_finish_is_told() -> None:
    assert judged(refusing()).outcome is Outcome.UNKNOWN
    story = Story().start().step(0).act(1).crash().start(1).act(1).exit(1).stop("gave up")
    assert judged(story).finding == "email.send happened 2 times instead of once (step 1)"
