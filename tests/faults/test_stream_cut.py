"""Streams that break off, proved by the bytes that were sent of those that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.errors import ScenarioError
from chaos.faults.stream_cut import StreamCut
from tests import replies


@pytest.mark.parametrize(
    ("fault", "step"),
    [
        (StreamCut(), replies.PAYMENT),
        (StreamCut(after=1.0), replies.LAST),
        (StreamCut(after=0.0), replies.MIDDLE),
        (StreamCut(2, "dropped", 0.8), replies.PAYMENT),
    ],
)
def test_half_a_reply_is_asked_for_again(tmp_path: Path, fault: StreamCut, step: int) -> None:
    wrong = replies.run(tmp_path, fault, f"it@{step}/before_think", stream=True)
    assert [event.spoiled for event in wrong.asked if event.turn == step] == [fault.how] * fault.requests + [""]
    assert wrong.did("payments") == [True]
    assert wrong.broken == {} and wrong.statuses == [0]
    (landed,) = wrong.landed
    assert landed.how == fault.how
    assert 0 <= int(landed.evidence["sent_bytes"]) < int(landed.evidence["whole_bytes"])


def test_a_streaming_agent_is_the_same_agent(tmp_path: Path) -> None:
    plain = replies.run(tmp_path / "plain", StreamCut(), "it@9/before_think")
    streamed = replies.run(tmp_path / "streamed", StreamCut(), "it@9/before_think", stream=True)
    assert plain.landed == () and streamed.landed
    assert plain.record.final_state == streamed.record.final_state
    assert [e.prompt for e in plain.asked] == [e.prompt for e in streamed.asked if not e.spoiled]


def test_what_is_not_streamed_cannot_be_cut(tmp_path: Path) -> None:
    replies.not_exercised(tmp_path, StreamCut(), "1/before_think")


def test_options() -> None:
    replies.takes_none(StreamCut)
    with pytest.raises(ScenarioError, match="from 0 to 1"):
        StreamCut(after=1.5)
