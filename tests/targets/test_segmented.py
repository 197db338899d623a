"""The segmented agent: no phase runs twice, whatever is killed, and what a lossy hand-off costs."""

from __future__ import annotations

import signal
import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from chaos.errors import ScenarioError
from chaos.events.seen import Asked
from chaos.targets import Strategy
from chaos.targets.reference import Reference

STEPS = 12  # phases of four steps
STEP_PHASES = ["before_think", "before_act", "after_act", "during_commit", "after_commit"]
KILLS = (
    "1/before_think", "1/after_act",
    "3/before_act", "3/after_act", "3/during_commit", "3/after_commit",  # the end of phase 1
    "4/before_think", "4/before_act", "5/after_act", "5/during_commit",
    "7/during_commit", "7/after_commit",  # the end of phase 2
    "8/before_think", "9/before_act", "9/after_act", "9/during_commit",
)  # fmt: skip
ASKED_AGAIN = ("before_act", "after_act")  # the model's answer had come, and was lost

# Any: the bench is a class of conftest.py, which cannot be imported under --import-mode=importlib
Make = Callable[..., Any]


def segmented(handoff: str = "complete") -> Strategy:
    return Reference().strategy("segmented", {"handoff": handoff})


def requests(bench: Any) -> Counter[int]:
    return Counter(event.turn for event in bench.journal.events if isinstance(event, Asked))


def handed(state: Any) -> bool:
    return str(state["messages"][2]["content"]).startswith("Hand-off: ")


def test_a_wrong_option_is_told() -> None:
    with pytest.raises(ScenarioError, match="handoff must be complete or lossy"):
        segmented("none")


@pytest.mark.parametrize("handoff", ["complete", "lossy"])
def test_three_threads_and_every_point_once(make_bench: Make, handoff: str) -> None:
    bench = make_bench(Reference(steps=STEPS))
    assert bench.incarnation(segmented(handoff)) == 0, bench.error
    wanted = [(phase, step) for step in range(STEPS) for phase in STEP_PHASES]
    assert [(p.point, p.step) for p in bench.points[2:-1]] == wanted
    states = [p.state for p in bench.points if p.point == "after_commit"]
    assert None not in states and len(set(states)) == STEPS
    assert all(bench.right_files().values()) and requests(bench) == Counter(range(STEPS))
    final = bench.final()
    assert final["steps"] == STEPS and handed(final)
    assert sum(message["role"] == "assistant" for message in final["messages"]) == 4
    assert (bench.reload(segmented(handoff)) == final) == (handoff == "complete")
    with sqlite3.connect(bench.root / "durable/state.db") as database:
        threads = [name for (name,) in database.execute("SELECT DISTINCT thread_id FROM checkpoints ORDER BY 1")]
    assert threads == ["t-1_phase1", "t-1_phase2", "t-1_phase3"]


def test_killed_anywhere_it_goes_on_there_and_no_phase_runs_again(make_bench: Make) -> None:
    whole, bench = make_bench(Reference(steps=STEPS)), make_bench(Reference(steps=STEPS))
    assert whole.incarnation(segmented()) == 0, whole.error
    for at in KILLS:
        assert bench.incarnation(segmented(), at, type(bench).kill) == -signal.SIGKILL, (at, bench.error)
    assert bench.incarnation(segmented()) == 0, bench.error
    assert bench.final() == whole.final() == bench.reload(segmented())
    assert bench.effects() == whole.effects()
    again = (at.split("/") for at in KILLS)
    assert requests(bench) - requests(whole) == Counter(int(step) for step, phase in again if phase in ASKED_AGAIN)
    right = {p.step: p.state for p in whole.points if p.point == "after_commit"}
    resumed = [p for p in bench.points if p.point == "after_load"][1:]
    assert len(resumed) == len(KILLS) and all(p.state == right[p.step - 1] for p in resumed)
    assert all(p.state == right[p.step] for p in bench.points if p.point == "after_commit")


def test_a_hand_off_is_stored_before_the_next_phase_begins(make_bench: Make) -> None:
    bench = make_bench(Reference(steps=STEPS))
    bench.incarnation(segmented(), "3/during_commit", type(bench).kill)
    with sqlite3.connect(bench.root / "durable/state.db") as database:
        threads = database.execute("SELECT DISTINCT thread_id FROM checkpoints").fetchall()
    assert threads == [("t-1_phase1",)]
    stored = bench.reload(segmented())
    assert handed(stored) and len(stored["messages"]) == 3 and stored["steps"] == 4


@pytest.mark.parametrize(
    ("at", "right"),
    [("2/after_act", True), ("3/during_commit", False), ("9/before_act", False)],
)
def test_a_lossy_hand_off_costs_the_report_its_figures(make_bench: Make, at: str, right: bool) -> None:
    bench = make_bench(Reference(steps=STEPS))
    bench.crashed(segmented("lossy"), at, type(bench).kill)
    assert bench.right_files()["workspace/report.md"] == right
    assert right or "- Rows: 0\n" in (bench.root / "workspace/report.md").read_text()
