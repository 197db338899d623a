from __future__ import annotations

import pytest

from chaos.checks.streams import Streams
from chaos.verdict import PASS, Verdict
from tests.journals import CHARGE, FACTS, TERMS, Story, recovered, reference, stuck


def judged(story: Story) -> Verdict:
    return Streams().check(story.record, reference().record, TERMS, FACTS)


@pytest.mark.parametrize("story", [recovered(), reference(), stuck()])
def test_every_reply_came_whole(story: Story) -> None:
    assert judged(story) == PASS


def test_what_is_asked_for_again_is_right() -> None:
    assert judged(Story().start().steps(0, 2).ask(2, spoiled="truncated").steps(2).finish()) == PASS


def test_a_conversation_that_goes_on_from_half_a_reply() -> None:
    story = Story().start().steps(0, 2).ask(2, spoiled="truncated").ask(3, twist={3: "answ"})
    verdict = judged(story.stop("deadline"))
    assert verdict.finding == (
        "a reply that was truncated was taken for an answer: the conversation of attempt 1 goes on from turn 2"
    )


def test_it_is_taken_even_if_it_happens_to_be_all_of_the_text() -> None:
    assert judged(Story().start().steps(0, 2).ask(2, spoiled="truncated").ask(3)) != PASS


def test_a_refusal_that_is_answered_for_is_no_answer_either() -> None:
    assert judged(Story().start().steps(0, 2).ask(2, status=502, spoiled="bad_gateway").ask(3)) != PASS


def test_asking_again_does_not_excuse_the_cut_text() -> None:
    story = Story().start().steps(0, 2).ask(2, spoiled="dropped").ask(2).ask(3, twist={3: "answ"})
    assert "goes on from turn 2" in judged(story).finding


def test_the_answer_of_an_earlier_life_is_one() -> None:
    story = Story().start().steps(0, 3).crash().start(2).ask(2, spoiled="lost").crash().start(2).steps(3).finish()
    assert judged(story) == PASS


def test_an_effect_that_only_half_a_reply_can_have_led_to() -> None:
    half = Story().start().steps(0, 2).ask(2, spoiled="truncated").effect("payments.charge:4")
    assert judged(half).finding == "payments.charge was done on a reply that was truncated (turn 2)"
    known = Story().start().steps(0, 2).ask(2, spoiled="truncated").effect(CHARGE)
    assert judged(known) == PASS, "another conversation may have led to it"


def test_half_a_reply_as_the_last_word() -> None:
    verdict = judged(Story().start().steps(0).ask(4, spoiled="truncated").finish())
    assert verdict.finding == ("a reply that was truncated was taken for the last word: nothing was asked after turn 4")
    died = Story().start().steps(0).ask(4, spoiled="truncated").exit(1).stop("gave up")
    assert judged(died) == PASS, "it stopped loudly"
