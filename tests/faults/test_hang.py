"""An agent that stands still is noticed by the watchdog alone."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from chaos.events.done import HeartbeatMissed, Stopped
from chaos.events.seen import Asked, Exited
from chaos.faults.hang import Hang
from chaos.faults.kill import Kill
from chaos.journal import AnyEvent
from chaos.verdict import CellVerdict
from tests import toy

LIMIT = 0.8  # seconds of silence: many times what a start takes here
AT = "hang@1/after_act"
CHILD = """
ready, done = os.pipe()
if os.fork() == 0:
    if os.fork() == 0: os.write(done, b'x')
    time.sleep(1000)
os.read(ready, 1)  # both are there
"""


def test_it_is_stopped_missed_and_started_again(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, plan=AT, faults={"hang": Hang()}, heartbeat_seconds=LIMIT)
    assert ran.statuses == [-signal.SIGKILL, 0]
    assert ran.record.finished
    assert ran.reached("after_commit", attempt=1) == [0]
    stopped, missed = ran.all(Stopped)[0], ran.all(HeartbeatMissed)[0]
    assert stopped.states == ("T",)
    assert missed.pid == stopped.pids[0]
    assert missed.at - stopped.at >= LIMIT
    (landed,) = ran.landed
    assert (landed.fault, landed.at, landed.how) == ("hang", "1/after_act", "stopped, killed by the watchdog")


def test_the_whole_tree_stands_still(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, CHILD + "work()", AT, {"hang": Hang()}, heartbeat_seconds=LIMIT)
    assert ran.all(Stopped)[0].states == ("T", "T", "T")
    assert ran.landed[0].evidence["processes"] == 3
    assert ran.statuses == [-signal.SIGKILL, 0]


def test_without_a_watchdog_it_misses(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, plan=AT, faults={"hang": Hang()}, heartbeat_seconds=60.0, deadline_seconds=0.8)
    assert ran.record.ended == "deadline"
    assert not ran.all(HeartbeatMissed)
    assert ran.landed == ()


def test_a_point_never_reached_proves_nothing(tmp_path: Path) -> None:
    run, cell = toy.replay(tmp_path, Hang(), "hang@9/after_act")
    assert run.landed == ()
    assert run.verdict is cell.verdict is CellVerdict.NOT_EXERCISED


@pytest.mark.parametrize("code", ["time.sleep(1000)", "while True: pass"], ids=["asleep", "busy"])
def test_an_agent_that_hangs_by_itself_is_started_again_too(tmp_path: Path, code: str) -> None:
    hangs_once = f"first = toy.DURABLE / 'first'\nif not first.exists():\n first.touch(); begin()\n {code}\nwork()"
    ran = toy.run(tmp_path, hangs_once, heartbeat_seconds=LIMIT)
    assert ran.statuses == [-signal.SIGKILL, 0]
    assert ran.record.finished
    assert [event.attempt for event in ran.all(HeartbeatMissed)] == [1]


def test_an_agent_that_always_hangs_ends_by_the_backoff_limit(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, "time.sleep(1000)", heartbeat_seconds=0.1, backoff_limit=2)
    assert ran.statuses == [-signal.SIGKILL] * 3
    assert ran.record.ended == "gave up"


def test_points_and_requests_are_signs_of_life(tmp_path: Path) -> None:
    """Slower than the limit as a whole, never silent for so long."""
    slow = "answers = begin()\nfor n in range(6):\n time.sleep(0.1)\n {}\nwork()"
    for number, sign in enumerate(("point('before_think', 0)", "ask([])")):
        ran = toy.run(tmp_path / str(number), slow.format(sign), heartbeat_seconds=LIMIT)
        assert ran.statuses == [0]


class Slow(toy.CountingBrain):
    """Takes longer to answer than the watchdog waits."""

    def reply(self, messages):  # type: ignore[no-untyped-def]
        import time

        time.sleep(2 * LIMIT)
        return super().reply(messages)


def test_who_waits_for_an_answer_of_ours_is_not_silent(tmp_path: Path) -> None:
    from dataclasses import replace

    made = replace(toy.setup(toy.Toy(steps=1), heartbeat_seconds=LIMIT), brain=Slow())
    ran = toy.execute_plan(tmp_path, made, "no fault")
    assert ran.statuses == [0]
    assert len(ran.all(Asked)) == 1


def test_it_may_hang_while_it_recovers(tmp_path: Path) -> None:
    plan = "kill@1/after_act+hang@recovery/after_load"
    ran = toy.run(tmp_path, plan=plan, faults={"kill": Kill(), "hang": Hang()}, heartbeat_seconds=LIMIT)
    assert ran.statuses == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert len(ran.landed) == 2


STOPPED = Stopped(at=1.0, attempt=1, pids=(7, 8), states=("T", "T"))
RUNNING = Stopped(at=1.0, attempt=1, pids=(7, 8), states=("T", "R"))
MISSED = HeartbeatMissed(at=2.0, attempt=1, pid=7, seconds=1.0)
KILLED = Exited(at=3.0, attempt=1, status=-9)


@pytest.mark.parametrize(
    ("events", "lands"),
    [
        ([STOPPED, MISSED, KILLED], True),
        ([RUNNING, MISSED, KILLED], False),  # a part of it went on
        ([Stopped(at=1.0, attempt=1, pids=(), states=()), MISSED, KILLED], False),
        ([STOPPED, KILLED], False),  # by somebody else, or at the deadline
        ([MISSED, KILLED], False),  # it hung by itself
        ([STOPPED, MISSED, Exited(at=3.0, attempt=1, status=0)], False),
        ([STOPPED, MISSED], False),
        ([], False),
    ],
)
def test_stopped_silent_and_killed_are_a_hang(events: list[AnyEvent], lands: bool) -> None:
    assert (Hang().landed("1/after_act", events) is not None) is lands
