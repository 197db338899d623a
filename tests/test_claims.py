"""What a strategy says that it restores, against what a run showed."""

from __future__ import annotations

import pytest

from chaos.checks import Terms
from chaos.claims import KEPT, NOT_JUDGED, REFUTED, judge_claims
from chaos.verdict import PASS, Verdict, fail, unknown
from tests.journals import Story, recovered, reference

REFERENCE = reference().record


def judged(claim: str, run: Story, verdicts: dict[str, Verdict] | None = None, terms: Terms | None = None) -> str:
    return judge_claims(frozenset({claim}), run.record, REFERENCE, verdicts or {}, terms or Terms())[claim]


@pytest.mark.parametrize("claim", ["files", "processes", "environment"])
@pytest.mark.parametrize(
    ("verdict", "answer"),
    [(PASS, KEPT), (fail("gone"), REFUTED), (unknown("not observed"), NOT_JUDGED), (None, NOT_JUDGED)],
)
def test_a_claim_is_judged_by_the_check_of_its_name(claim: str, verdict: Verdict | None, answer: str) -> None:
    verdicts = {claim: verdict} if verdict else {"state": PASS}
    assert judged(claim, recovered(), verdicts) == answer


def test_messages_are_kept_if_the_first_prompt_is_the_right_one() -> None:
    assert judged("messages", recovered(at=2)) == KEPT


def test_messages_are_refuted_by_another_prompt() -> None:
    story = Story().start().steps(0, 2).crash().start(2)
    assert judged("messages", story.ask(2, twist={1: "something else"})) == REFUTED


def test_messages_are_refuted_by_the_right_prompt_of_a_turn_long_past() -> None:
    """It knows nothing wrong, it knows too little."""
    story = Story().start().steps(0, 3).crash().start(0).ask(0)
    assert judged("messages", story) == REFUTED
    assert judged("messages", story, terms=Terms(max_lost_steps=3)) == KEPT
    assert judged("messages", story, terms=Terms(max_lost_steps=None)) == KEPT


def test_messages_are_refuted_by_a_turn_that_the_reference_never_had() -> None:
    assert judged("messages", Story().start().steps(0, 2).crash().start(2).ask(9)) == REFUTED


def test_only_the_first_prompt_of_an_incarnation_counts() -> None:
    """What comes later may be wrong for other reasons, such as a lost file."""
    story = Story().start().steps(0, 2).crash().start(2).ask(2).ask(3, twist={2: "no such file"})
    assert judged("messages", story) == KEPT


def test_every_incarnation_counts() -> None:
    story = Story().start().steps(0, 2).crash().start(2).ask(2).crash().start(2)
    assert judged("messages", story.ask(2, twist={0: "another goal"})) == REFUTED


def test_a_refused_request_is_not_the_first() -> None:
    story = Story().start().steps(0, 2).crash().start(2).ask(2, twist={1: "?"}, status=429)
    assert judged("messages", story) == NOT_JUDGED
    assert judged("messages", story.ask(2)) == KEPT


def test_a_run_that_never_came_back_says_nothing() -> None:
    assert judged("messages", Story().start().steps(0, 2).crash()) == NOT_JUDGED
    assert judged("messages", reference()) == NOT_JUDGED


def test_who_claims_nothing_is_judged_by_nothing() -> None:
    assert judge_claims(frozenset(), recovered().record, REFERENCE, {}, Terms()) == {}


def test_claims_come_in_order_of_their_names() -> None:
    claims = frozenset({"processes", "messages", "files", "environment"})
    assert list(judge_claims(claims, recovered().record, REFERENCE, {}, Terms())) == sorted(claims)


def test_messages_are_refuted_by_a_store_that_holds_others() -> None:
    """The living agent knows them all; whoever comes next does not. No crash is needed to show it."""
    ended = {"messages": ["goal", "one", "two"], "steps": 2}
    told = Story().start().steps(0, 2)
    assert judged("messages", told.finish(snapshot=ended, reloaded={"messages": ["goal"], "steps": 2})) == REFUTED
    told = Story().start().steps(0, 2)
    assert judged("messages", told.finish(snapshot=ended, reloaded={**ended, "steps": 0})) == NOT_JUDGED
