"""SIGKILL to the whole tree, or another signal to its first process; proved by the wait status."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Literal

import pytest

from chaos.events.done import Signalled
from chaos.events.seen import Exited
from chaos.faults.kill import Kill
from chaos.journal import AnyEvent
from chaos.verdict import CellVerdict
from tests import toy


def sent(number: int = signal.SIGKILL, at: float = 1.0) -> Signalled:
    return Signalled(at=at, attempt=1, pid=7, signal=number)


def exited(status: int, at: float = 2.0) -> Exited:
    return Exited(at=at, attempt=1, status=status)


def test_the_tree_dies_at_the_point_and_the_disk_stays(tmp_path: Path) -> None:
    code = "say(sorted(os.listdir())); work()"
    ran = toy.run(tmp_path, code, "kill@1/after_act", {"kill": Kill()})
    assert ran.statuses == [-signal.SIGKILL, 0]
    assert ran.reached("after_act", attempt=1) == [0, 1]
    assert ran.reached("after_commit", attempt=1) == [0]  # it was held at the point and never went past it
    assert ran.told == ["[]", "['0.txt', '1.txt']"]
    (landed,) = ran.landed
    assert (landed.fault, landed.at, landed.how) == ("kill", "1/after_act", "killed")
    assert landed.evidence["status"] == -signal.SIGKILL
    assert landed.evidence["pid"] == ran.all(Signalled)[0].pid


def test_the_children_die_too(tmp_path: Path) -> None:
    code = "if os.fork() == 0: time.sleep(1000)\nwork()"
    ran = toy.run(tmp_path, code, "kill@0/before_act", {"kill": Kill()})
    assert ran.statuses == [-signal.SIGKILL, 0]


def test_a_point_that_is_never_reached_proves_nothing(tmp_path: Path) -> None:
    run, cell = toy.replay(tmp_path, Kill(), "kill@9/after_act")
    assert run.landed == ()
    assert run.verdict is CellVerdict.NOT_EXERCISED
    assert not cell.passed
    assert not run.broke  # nothing is wrong with the agent; there just is no proof
    assert run.missed == ("the agent never came to kill@9/after_act",)
    assert run.missed[0] in cell.why


@pytest.mark.parametrize(
    ("events", "lands"),
    [
        ([sent(), exited(-9)], True),
        ([sent(), exited(0)], False),  # it had ended before the signal came
        ([sent(), exited(1)], False),
        ([exited(-9)], False),  # killed by someone else
        ([sent()], False),
        ([], False),
    ],
)
def test_only_our_signal_and_its_status_are_a_kill(events: list[AnyEvent], lands: bool) -> None:
    assert (Kill().landed("1/after_act", events) is not None) is lands


Asking = Literal["SIGTERM", "SIGINT"]
LONG = 20.0  # more than any agent here takes to end
POLITE = "for number in (signal.SIGTERM, signal.SIGINT): signal.signal(number, lambda n, _: sys.exit(128 + n))\n"
DEAF = "for number in (signal.SIGTERM, signal.SIGINT): signal.signal(number, signal.SIG_IGN)\n"
AT = "kill@1/after_act"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_an_agent_may_answer_the_signal_and_stays_at_its_point(tmp_path: Path, name: Asking) -> None:
    ran = toy.run(tmp_path, POLITE + "work()", AT, {"kill": Kill(signal=name, grace=LONG)})
    number = signal.Signals[name]
    assert ran.statuses == [128 + number, 0]
    assert [event.signal for event in ran.all(Signalled)] == [number]
    assert ran.reached("after_commit", attempt=1) == [0]
    (landed,) = ran.landed
    assert landed.how == f"ended by {name}"
    assert (landed.evidence["signal"], landed.evidence["status"]) == (name, 128 + number)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_who_does_not_end_in_time_is_killed(tmp_path: Path, name: Asking) -> None:
    ran = toy.run(tmp_path, DEAF + "work()", AT, {"kill": Kill(signal=name, grace=0.1)})
    assert ran.statuses == [-signal.SIGKILL, 0]
    first, second = ran.all(Signalled)
    assert (first.signal, second.signal) == (signal.Signals[name], signal.SIGKILL)
    assert second.at - first.at >= 0.1
    assert ran.landed[0].how == f"{name}, killed after 0.1 s"


def test_a_handler_that_ends_with_0_before_the_work_is_done_is_found_out(tmp_path: Path) -> None:
    """The supervisor takes the job for done: "graceful" ends that report success are real."""
    graceful = toy.Toy("signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nwork()")
    run, cell = toy.replay(tmp_path, Kill(signal="SIGTERM", grace=LONG), AT, target=graceful)
    assert len(run.landed) == 1
    assert run.checks["finishes"].finding.startswith("exited with status 0 and was not done")
    assert (run.verdict, cell.passed) == (CellVerdict.DIVERGED, False)
    run, cell = toy.replay(tmp_path / "kill", Kill(), AT, target=graceful)
    assert (run.verdict, cell.passed) == (CellVerdict.RECOVERED, True), "it appears with one signal only"


@pytest.mark.parametrize(
    ("events", "lands"),
    [
        ([sent(15), exited(143)], True),
        ([sent(15), sent(9), exited(-9)], True),
        ([sent(15), exited(0)], True),  # that it ended well is for the checks to judge
        ([sent(2), exited(130)], False),
        ([sent(9), exited(-9)], False),  # it was not asked
        ([sent(15)], False),
        ([exited(143)], False),
        ([], False),
    ],
)
def test_the_signal_that_was_asked_for_must_have_been_sent(events: list[AnyEvent], lands: bool) -> None:
    assert (Kill(signal="SIGTERM").landed("1/after_act", events) is not None) is lands
