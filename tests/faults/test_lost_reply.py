"""The effect happens and its answer is lost, proved by the ledger and by the reset."""

from __future__ import annotations

from pathlib import Path

from chaos.faults.lost_reply import LostReply
from tests import replies


def test_an_idempotency_key_makes_one_effect_of_two_calls(tmp_path: Path) -> None:
    wrong = replies.run(tmp_path, LostReply(2), f"it@{replies.PAYMENT}/before_act")
    assert wrong.did("payments") == [True, False, False]
    assert wrong.broken == {} and wrong.statuses == [0]
    (landed,) = wrong.landed
    assert landed.evidence["path"] == "/services/payments/charge"
    assert (landed.evidence["replies"], landed.evidence["status"], landed.evidence["sent_bytes"]) == (2, 200, 0)


def test_without_a_key_the_agent_does_not_send_it_twice_and_says_that_it_failed(tmp_path: Path) -> None:
    wrong = replies.run(tmp_path, LostReply(), f"it@{replies.MAIL}/before_act")
    assert wrong.did("email")[:1] == [True] and "effects" not in wrong.broken
    assert "message 7" in wrong.broken["state"], "the model was told of an error that the reference did not have"
    assert wrong.landed


def test_a_reply_of_the_model_that_is_lost_was_paid_for(tmp_path: Path) -> None:
    wrong = replies.run(tmp_path, LostReply(link="model"), "it@9/before_think")
    twice = [event for event in wrong.asked if event.turn == 9]
    assert [(event.status, event.spoiled, event.again) for event in twice] == [(200, "lost", False), (200, "", True)]
    assert twice[0].tokens_out == twice[1].tokens_out > 0
    assert wrong.broken == {} and wrong.landed


def test_nobody_asks(tmp_path: Path) -> None:
    replies.not_exercised(tmp_path, LostReply())
    replies.takes_none(LostReply)
