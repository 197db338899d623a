"""SIGKILL to the whole tree, proved by the wait status."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from chaos.faults.kill import Kill
from chaos.journal import AnyEvent, Exited, Signalled
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
