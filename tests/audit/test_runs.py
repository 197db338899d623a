"""What the reference agent leaves behind when it is killed is whole, unless its strategy drops deltas."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.events.done import Audited
from chaos.targets.reference import Reference
from tests.cells import ReferenceCell

TARGET = Reference(steps=16)


@pytest.mark.parametrize(
    ("strategy", "options", "point"),
    [
        ("deep_agents", {}, "9/during_commit"),
        ("full_snapshot", {"durability": "async"}, "9/during_commit"),
        ("segmented", {}, "10/after_act"),
        ("selective", {}, "12/before_think"),
    ],
)
def test_a_killed_agent_leaves_whole_threads(
    tmp_path: Path, strategy: str, options: dict[str, object], point: str
) -> None:
    ran = ReferenceCell(tmp_path, TARGET, strategy, options)._execute(f"kill@{point}")
    (audited,) = (event for event in ran.events if isinstance(event, Audited))
    assert ran.finished and audited.when == "end" and audited.checkpoints > 5
    assert audited.findings == ()
    assert audited.threads == (3 if strategy == "segmented" else 1)


def test_a_strategy_that_drops_deltas_is_found_out(tmp_path: Path) -> None:
    ran = ReferenceCell(tmp_path, TARGET, "selective", {"channels": "delta"}).run("kill@9/before_think")
    assert ran.broken()["corruption"].startswith("the agent left a damaged thread by itself: missing: checkpoint ")


def test_a_strategy_that_stores_no_thread_is_not_audited(tmp_path: Path) -> None:
    ran = ReferenceCell(tmp_path, TARGET, "chat_history")._execute("no fault")
    assert not [event for event in ran.events if isinstance(event, Audited)]
