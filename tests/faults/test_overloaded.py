"""An overload, proved by the statuses that went over the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from chaos.faults.overloaded import Overloaded
from tests import replies


@pytest.mark.parametrize(("status", "told"), [(503, None), (529, 0.02), (500, None)])
def test_the_agent_backs_off_and_comes_through(
    tmp_path: Path, status: Literal[503, 529, 500], told: float | None
) -> None:
    wrong = replies.run(tmp_path, Overloaded(3, status, told), "it@9/before_think")
    refused = [event for event in wrong.asked if event.status != 200]
    assert [(event.status, event.turn, event.retry_after) for event in refused] == [(status, 9, told)] * 3
    assert [event.retry for event in wrong.asked if event.turn == 9] == [0, 1, 2, 3]
    assert wrong.broken == {} and wrong.statuses == [0]
    (landed,) = wrong.landed
    assert landed.evidence == {"refused": 3, "status": status}


def test_a_rate_limit_is_another_fault(tmp_path: Path) -> None:
    from chaos.faults.rate_limit import RateLimit

    wrong = replies.run(tmp_path, RateLimit(2, 0.001), "it@9/before_think")
    assert Overloaded(2).landed("9/before_think", wrong.record.events) is None


def test_nobody_asks(tmp_path: Path) -> None:
    replies.not_exercised(tmp_path, Overloaded())
    replies.takes_none(Overloaded)
