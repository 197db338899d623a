"""Replies that make no sense, proved by what was sent."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from chaos.faults.malformed_reply import MalformedReply
from chaos.world.malformed import How
from tests import replies

EVERY = [*((how, False) for how in get_args(How)), ("not_json", True), ("html", True), ("bad_arguments", True)]


@pytest.mark.parametrize(("how", "stream"), EVERY)
def test_nothing_is_concluded_from_it(tmp_path: Path, how: How, stream: bool) -> None:
    wrong = replies.run(tmp_path, MalformedReply(2, how), f"it@{replies.PAYMENT}/before_think", stream=stream)
    asked = [event for event in wrong.asked if event.turn == replies.PAYMENT]
    assert [event.spoiled for event in asked] == [how, how, ""]
    assert [event.tokens_out > 0 for event in asked[:1]] == [how != "bad_gateway"], "what came through was paid for"
    assert wrong.did("payments") == [True]
    assert wrong.broken == {} and wrong.statuses == [0]
    (landed,) = wrong.landed
    assert landed.evidence["status"] == (502 if how == "bad_gateway" else 200)


def test_a_reply_without_a_call_has_no_arguments(tmp_path: Path) -> None:
    replies.not_exercised(tmp_path, MalformedReply(how="bad_arguments"), "1/before_think")
    replies.takes_none(MalformedReply)


def test_nobody_asks(tmp_path: Path) -> None:
    replies.not_exercised(tmp_path, MalformedReply())
