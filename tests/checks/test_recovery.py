from __future__ import annotations

from chaos.checks import Terms
from chaos.checks.recovery import Recovery
from chaos.verdict import PASS, Outcome, Verdict
from tests.journals import FACTS, Story, recovered, reference, refusing


def judged(story: Story, terms: Terms) -> Verdict:
    return Recovery().check(story.record, reference().record, terms, FACTS)


def test_within_the_terms() -> None:
    assert judged(recovered(at=3, resume=2), Terms()) == PASS
    assert judged(reference(), Terms(0, 0, 0.0)) == PASS


def test_too_many_steps_lost() -> None:
    verdict = judged(recovered(at=3, resume=0), Terms(max_lost_steps=1))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.finding == "3 steps lost by a crash; allowed: 1"
    assert verdict.details == ("attempt 2 went on at turn 0",)


def test_too_many_tokens_asked_again() -> None:
    verdict = judged(recovered(at=3, resume=2), Terms(max_tokens_asked_again=10))
    assert verdict.finding == "35 tokens were paid for again; allowed: 10"


def test_too_slow() -> None:
    verdict = judged(recovered(), Terms(max_recovery_seconds=2.5))
    assert verdict.finding == "recovery took 5 s; allowed: 2.5"
    assert verdict.details == ("seconds: detect 1, restart 2, load 1, replay 1",)


def test_no_limit_is_no_limit() -> None:
    assert judged(recovered(at=3, resume=0), Terms(max_lost_steps=None)) == PASS


def test_unknown() -> None:
    assert judged(refusing(), Terms()).finding == "the agent did not finish"
    mute = Story()
    mute.attempt = 1
    assert judged(mute.exit(-9).exit(0).stop("finished"), Terms()).outcome is Outcome.UNKNOWN
