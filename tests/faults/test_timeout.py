"""No answer, proved by the connection that was held until its client gave up."""

from __future__ import annotations

from pathlib import Path

from chaos.faults.timeout import Timeout
from tests import replies

PATIENCE = 0.2  # seconds


def test_the_model_does_not_answer(tmp_path: Path) -> None:
    wrong = replies.run(tmp_path, Timeout(2, seconds=30.0), "it@9/before_think", timeout_ms=int(PATIENCE * 1000))
    assert [event.spoiled for event in wrong.asked if event.turn == 9] == ["held", "held", ""]
    assert [event.again for event in wrong.asked if event.turn == 9] == [False, True, True], "paid for three times"
    assert wrong.broken == {} and wrong.statuses == [0]
    (landed,) = wrong.landed
    assert (landed.how, landed.evidence["replies"], landed.evidence["sent_bytes"]) == ("held", 2, 0)
    assert all(0 < event.held_seconds < 30 for event in wrong.spoiled), "the client gave up, not we"


def test_a_client_without_a_limit_waits_as_long_as_it_is_kept(tmp_path: Path) -> None:
    wrong = replies.run(tmp_path, Timeout(seconds=0.3), "it@9/before_think")
    assert wrong.spoiled[0].held_seconds >= 0.3
    assert wrong.broken == {} and wrong.landed


def test_a_service_does_its_work_and_does_not_answer(tmp_path: Path) -> None:
    fault = Timeout(seconds=30.0, link="services")
    wrong = replies.run(tmp_path, fault, f"it@{replies.PAYMENT}/before_act", timeout_ms=int(PATIENCE * 1000))
    assert wrong.did("payments") == [True, False], "paid once, and recognised by its key"
    assert wrong.broken == {}
    assert wrong.landed[0].evidence["path"] == "/services/payments/charge"


def test_nobody_asks(tmp_path: Path) -> None:
    replies.not_exercised(tmp_path, Timeout())
    replies.takes_none(Timeout)
