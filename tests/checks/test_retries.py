from __future__ import annotations

import pytest

from chaos.checks.retries import Retries
from chaos.events.seen import Asked
from chaos.verdict import PASS, Verdict
from tests.journals import FACTS, TERMS, Story, digest, recovered, reference, stuck


def judged(story: Story) -> Verdict:
    return Retries().check(story.record, reference().record, TERMS, FACTS)


def refused(story: Story, turn: int, told: float | None, **more: object) -> Story:
    return story.ask(turn, status=429, refused="rate_limit", retry_after=told, **more)


def at(story: Story, *seconds: float) -> Story:
    """Ask turn 0 in vain at these times, all of them refused without a word of when to come back."""
    prompt = digest(["p"])
    for one in seconds:
        story.events.append(
            Asked(
                at=one, attempt=1, turn=0, status=503, prompt=prompt, added=(prompt,), messages=b"[1]",
                goal="", refused="overloaded",
            )  # type: ignore[arg-type]
        )  # fmt: skip
    return story


@pytest.mark.parametrize("story", [recovered(), reference(), stuck()])
def test_nobody_was_refused(story: Story) -> None:
    assert judged(story) == PASS


def test_waiting_as_long_as_told_is_right() -> None:
    assert judged(refused(Story().start(), 0, 1.0).ask(0)) == PASS  # a second passes between two events
    assert judged(refused(refused(Story().start(), 0, 0.0), 0, 0.9).ask(0)) == PASS


def test_asking_too_early_is_told_even_of_a_run_that_did_not_finish() -> None:
    verdict = judged(refused(Story().start(), 0, 1.5).ask(0).exit(1).stop("gave up"))
    assert verdict.finding == "asked again 1.000 s after a 429 that said 1.5 s (turn 0, attempt 1)"


def test_a_restart_does_not_shorten_the_wait() -> None:
    story = refused(Story().start().step(0), 1, 9.0).crash().start(0).ask(0)
    assert judged(story).finding.endswith("(turn 0, attempt 2, after a restart)")
    assert judged(refused(Story().start().step(0), 1, 3.0).crash().start(0).ask(0)) == PASS


def test_another_conversation_may_have_been_on_its_way() -> None:
    assert judged(refused(Story().start(), 0, 1.5).ask(1).ask(0)) == PASS
    beside = refused(Story().start(), 0, 5.0).start().ask(1)  # nobody had ended: another worker, which cannot know
    assert judged(beside) == PASS


def test_a_storm_is_many_requests_without_a_pause() -> None:
    verdict = judged(at(Story().start(), 0, 0.01, 0.02, 0.03, 0.04))
    assert verdict.finding == ("retry storm: 5 requests for turn 0 in 0.040 s (attempt 1), each after no usable answer")
    assert judged(at(Story().start(), 0, 0.05, 0.15, 0.35, 0.75, 1.55)) == PASS  # a back-off from 50 ms
    assert judged(at(Story().start(), 0, 0.01, 0.02, 0.03)) == PASS  # too few for a storm


def test_who_is_told_to_come_back_at_once_may() -> None:
    story = Story().start()
    for _ in range(9):
        refused(story, 0, 0.0)
    assert judged(story.ask(0)) == PASS


@pytest.mark.parametrize(("why", "says"), [("quota", "the quota is used up"), ("context_length", "is too long")])
def test_what_waiting_cannot_bring_is_not_asked_for(why: str, says: str) -> None:
    story = Story().start()
    for _ in range(3):
        story.ask(0, status=400, refused=why)
    assert judged(story) == PASS, "the SDKs' own retries"
    verdict = judged(story.ask(0, status=400, refused=why))
    assert verdict.finding.startswith("4 requests of attempt 1 were refused because") and says in verdict.finding


def test_each_incarnation_and_each_shorter_prompt_may_try() -> None:
    story = Story()
    for _ in range(4):
        story.start().ask(0, status=429, refused="quota").exit(1)
    for turn in range(4, 0, -1):
        story.ask(turn, status=400, refused="context_length")
    assert judged(story) == PASS
