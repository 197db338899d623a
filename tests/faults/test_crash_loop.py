"""Killed, and again while it comes up, and again."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from chaos.errors import ScenarioError
from chaos.events.done import Signalled
from chaos.events.seen import Ended, Exited, Started
from chaos.faults import Loading
from chaos.faults.crash_loop import CrashLoop
from chaos.faults.evict import Evict
from chaos.faults.kill import Kill
from chaos.faults.oom_kill import OomKill
from chaos.journal import AnyEvent
from chaos.plan import parse_plan
from chaos.sandbox.process import able
from chaos.scenario.loader import load
from chaos.verdict import CellVerdict
from tests import toy

AT = "crash_loop@1/after_act"


@pytest.mark.parametrize("phase", ["before_load", "after_load"])
@pytest.mark.parametrize("times", [2, 4])
def test_it_dies_so_often_and_then_lives(tmp_path: Path, phase: Loading, times: int) -> None:
    ran = toy.run(tmp_path, plan=AT, faults={"crash_loop": CrashLoop(times, phase)}, backoff_limit=5)
    assert ran.statuses == [-signal.SIGKILL] * times + [0]
    for attempt in range(2, times + 1):
        last = [event for event in ran.record.points if event.attempt == attempt][-1]
        assert last.phase == phase, "it dies at the same phase of coming up"
    assert ran.record.finished
    (landed,) = ran.landed
    assert (landed.how, landed.evidence["deaths"]) == (f"killed {times} times", times)


def test_the_supervisor_waits_longer_each_time(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, plan=AT, faults={"crash_loop": CrashLoop(3)}, backoff_limit=5, backoff_seconds=0.04)
    ends, starts = [event.at for event in ran.all(Exited)], [event.at for event in ran.all(Started)]
    delays = [start - end for end, start in zip(ends[:-1], starts[1:], strict=True)]
    assert all(delay >= 0.04 * 2**number for number, delay in enumerate(delays))


def test_beyond_the_backoff_limit_the_run_gives_up_and_the_cell_says_so(tmp_path: Path) -> None:
    run, cell = toy.replay(tmp_path, CrashLoop(times=9), AT)  # the scenario allows 2 restarts
    (landed,) = run.landed
    assert (landed.how, landed.evidence["deaths"]) == ("killed until the supervisor gave up", 3)
    assert run.verdict is cell.verdict is CellVerdict.STUCK
    assert run.checks["finishes"].finding.startswith("gave up after 2 restarts: SIGKILL")
    assert not cell.passed


def test_a_correct_agent_loses_nothing(tmp_path: Path) -> None:
    run, cell = toy.replay(tmp_path, CrashLoop(times=2, phase="after_load"), AT)
    assert (run.verdict, cell.passed) == (CellVerdict.RECOVERED, True)
    assert run.rpo_steps == 1  # the step in flight, once, however often it died


def test_a_point_never_reached_proves_nothing(tmp_path: Path) -> None:
    run, cell = toy.replay(tmp_path, CrashLoop(), "crash_loop@9/after_act")
    assert run.landed == ()
    assert run.verdict is cell.verdict is CellVerdict.NOT_EXERCISED


def test_what_is_planned_behind_it_waits_for_its_end(tmp_path: Path) -> None:
    plan = f"{AT}+kill@recovery/after_load"
    ran = toy.run(tmp_path, plan=plan, faults={"crash_loop": CrashLoop(2, "after_load"), "kill": Kill()},
                  backoff_limit=5)  # fmt: skip
    assert ran.statuses == [-signal.SIGKILL] * 3 + [0]
    assert [landed.fault for landed in ran.landed] == ["crash_loop", "kill"]


def test_one_death_is_no_loop(tmp_path: Path) -> None:
    text = "version: 1\nscenario: one\ntarget: reference\nstrategies: [delta]\nfaults: [{kind: crash_loop, times: 1}]\n"
    (tmp_path / "one.chaos.yaml").write_text(text)
    with pytest.raises(ScenarioError, match="must be at least 2, not 1"):
        load(tmp_path / "one.chaos.yaml")


def sent(attempt: int, number: int = 9) -> Signalled:
    return Signalled(at=float(attempt), attempt=attempt, pid=70 + attempt, signal=number)


def exited(attempt: int, status: int = -9) -> Exited:
    return Exited(at=attempt + 0.5, attempt=attempt, status=status)


GAVE_UP = Ended(at=9.0, attempt=3, how="gave up")


@pytest.mark.parametrize(
    ("events", "lands"),
    [
        ([sent(1), exited(1), sent(2), exited(2), sent(3), exited(3)], True),
        ([sent(1), exited(1), sent(2), exited(2)], False),
        ([sent(1), exited(1), sent(2), exited(2), GAVE_UP], True),
        ([sent(1), exited(1), sent(2), exited(2), sent(3), exited(3, 0)], False),  # the last one ended by itself
        ([exited(1), exited(2), exited(3)], False),  # not by us
        ([GAVE_UP], False),
        ([], False),
    ],
)
def test_all_deaths_must_be_ours(events: list[AnyEvent], lands: bool) -> None:
    assert (CrashLoop(times=3).landed("1/after_act", events) is not None) is lands


# -- any process fault, during the recovery from another, and again


FAULTS = {"kill": Kill(), "oom_kill": OomKill(), "evict": Evict(grace=0.0), "term": Kill("SIGTERM", 0.1)}
PLANS = {
    "kill, and twice in recovery": "kill@1/after_act+kill@recovery/before_load+kill@recovery/after_load",
    "oom_kill in recovery": "kill@1/after_act+oom_kill@recovery/after_load",
    "evict in recovery": "kill@1/after_act+evict@recovery/before_think",
    "evict, then a signal": "evict@1/after_act+term@recovery/after_load",
    "all of them": "kill@1/after_act+evict@recovery/after_load+oom_kill@recovery/1/before_act+kill@recovery/after_load",
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_any_process_fault_may_hit_the_recovery(tmp_path: Path, plan: str) -> None:
    can = able()
    for name, lacks in (("oom_kill", can.memory_limit), ("evict", can.hostname)):
        if name in plan and lacks:
            pytest.skip(lacks)
    ran = toy.run(tmp_path, plan=plan, faults=FAULTS, backoff_limit=6)
    assert [landed.at for landed in ran.landed] == [str(planned.point) for planned in parse_plan(plan).faults]
    assert ran.record.attempts == len(ran.landed) + 1
    assert ran.record.finished
    assert ran.record.final_state == ran.record.reloaded_state == {"answers": ["answer 0", "answer 1", "answer 2"]}
