"""Prompts that do not fit, proved by the refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.errors import ScenarioError
from chaos.faults.context_overflow import ContextOverflow
from tests import replies


def test_a_compacting_agent_keeps_its_goal_and_comes_through(tmp_path: Path) -> None:
    wrong = replies.run(tmp_path, ContextOverflow(), "it@9/before_think", workload="long_notes", on_overflow="compact")
    refused = [event for event in wrong.asked if event.status == 400]
    assert {event.refused for event in refused} == {"context_length"}
    assert refused[0].turn == 9
    assert max(event.tokens_in for event in wrong.asked if event.status == 200) <= 0.95 * refused[0].tokens_in
    assert {event.goal for event in wrong.asked} == {wrong.asked[0].goal}
    assert wrong.statuses == [0]
    assert set(wrong.broken) == {"state"} and "tokens" in wrong.broken["state"], "shorter prompts cost less"
    (landed,) = wrong.landed
    assert landed.evidence["prompt_tokens"] == refused[0].tokens_in


def test_another_agent_stops_loudly(tmp_path: Path) -> None:
    wrong = replies.run(tmp_path, ContextOverflow(), "it@9/before_think")
    assert wrong.statuses and all(status == 1 for status in wrong.statuses)
    assert "maximum context length is" in wrong.record.exits[0].log
    assert "refused to resume" in wrong.broken["finishes"]
    assert "retries" not in wrong.broken, "once in each incarnation"
    assert wrong.landed


def test_prompts_that_fit_show_nothing(tmp_path: Path) -> None:
    replies.not_exercised(tmp_path / "fit", ContextOverflow(tokens=100_000), "1/before_think")
    replies.not_exercised(tmp_path / "none", ContextOverflow())
    with pytest.raises(ScenarioError, match="must not be negative"):
        ContextOverflow(tokens=-1)
