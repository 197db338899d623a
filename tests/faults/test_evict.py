"""SIGTERM, a grace period, SIGKILL; another node and an empty disk afterwards."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from chaos.events.done import DiskWiped, HostRenamed, Signalled
from chaos.events.seen import Exited
from chaos.faults.evict import Evict
from chaos.journal import AnyEvent
from chaos.sandbox.process import able
from chaos.verdict import CellVerdict
from tests import toy

needs_hostname = pytest.mark.skipif(bool(able().hostname), reason=able().hostname or "-")

LONG = 20.0  # more than any agent here takes to end
SHORT = 0.2
AT = "evict@1/after_act"
POLITE = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"


@needs_hostname
def test_an_agent_that_ends_in_time_is_not_killed(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, POLITE + "work()", AT, {"evict": Evict(grace=LONG)})
    assert ran.statuses == [143, 0]
    assert [event.signal for event in ran.all(Signalled)] == [signal.SIGTERM]
    (landed,) = ran.landed
    assert landed.how == "evicted"
    assert landed.evidence["status"] == 143


@needs_hostname
def test_an_agent_that_ignores_it_is_killed_after_the_grace_period(tmp_path: Path) -> None:
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwork()"
    ran = toy.run(tmp_path, code, AT, {"evict": Evict(grace=SHORT)})
    assert ran.statuses == [-signal.SIGKILL, 0]
    term, kill = ran.all(Signalled)
    assert (term.signal, kill.signal) == (signal.SIGTERM, signal.SIGKILL)
    assert kill.at - term.at >= SHORT
    assert ran.landed[0].how == "evicted, killed after the grace period"


@needs_hostname
def test_it_wakes_up_on_another_node_with_an_empty_disk(tmp_path: Path) -> None:
    code = "say(socket.gethostname() + ' ' + os.environ['HOSTNAME']); say(sorted(os.listdir())); work()"
    ran = toy.run(tmp_path, code, AT, {"evict": Evict(grace=SHORT)})
    assert ran.told == ["chaos-node-1 chaos-node-1", "[]", "chaos-node-2 chaos-node-2", "[]"]
    assert ran.landed[0].evidence["entries_lost"] == 2
    assert ran.landed[0].evidence["host"] == "chaos-node-1 -> chaos-node-2"
    assert ran.record.finished  # the toy makes its files again from the durable zone


@needs_hostname
def test_every_eviction_is_another_node(tmp_path: Path) -> None:
    plan = f"{AT}+evict@recovery/2/after_act"
    ran = toy.run(tmp_path, "say(socket.gethostname()); work()", plan, {"evict": Evict(grace=0.0)})
    assert ran.told == ["chaos-node-1", "chaos-node-2", "chaos-node-3"]
    assert len(ran.landed) == 2


@needs_hostname
def test_what_the_agent_announces_while_it_ends_may_pass(tmp_path: Path) -> None:
    """Its clean-up is not held up, and the step that it stood in does not go on."""
    code = POLITE + (
        "try: work()\nexcept SystemExit:\n for phase in ('during_commit', 'after_commit'): point(phase, 77)\n raise"
    )
    ran = toy.run(tmp_path, code, AT, {"evict": Evict(grace=LONG)})
    assert ran.statuses == [143, 0]
    assert 77 in ran.reached("during_commit", attempt=1)
    assert ran.reached("after_commit", attempt=1) == [0, 77]


@needs_hostname
def test_a_handler_may_announce_a_point_itself(tmp_path: Path) -> None:
    """It interrupts the announcement that is held, in the same thread."""
    code = "signal.signal(signal.SIGTERM, lambda *_: (point('during_commit', 77), sys.exit(143)))\nwork()"
    ran = toy.run(tmp_path, code, AT, {"evict": Evict(grace=2.0)})
    assert ran.statuses == [143, 0]
    assert 77 in ran.reached("during_commit", attempt=1)


@needs_hostname
def test_a_point_never_reached_proves_nothing(tmp_path: Path) -> None:
    run, cell = toy.replay(tmp_path, Evict(), "evict@9/after_act")
    assert run.landed == ()
    assert run.verdict is cell.verdict is CellVerdict.NOT_EXERCISED


def sent(number: int) -> Signalled:
    return Signalled(at=1.0, attempt=1, pid=7, signal=number)


def exited(status: int) -> Exited:
    return Exited(at=2.0, attempt=1, status=status)


WIPED = DiskWiped(at=3.0, attempt=1, zones=("workspace", "tmp"), files=5)
RENAMED = HostRenamed(at=4.0, attempt=1, old="a", new="b")


@pytest.mark.parametrize(
    ("events", "lands"),
    [
        ([sent(15), exited(143), WIPED, RENAMED], True),
        ([sent(15), sent(9), exited(-9), WIPED, RENAMED], True),
        ([sent(15), exited(0), WIPED, RENAMED], True),  # it ended well within the grace period
        ([sent(15), exited(143), RENAMED], False),  # the disk is still there
        ([sent(15), exited(143), WIPED], False),  # it is still on its node
        ([sent(15), exited(143)], False),
        ([sent(9), exited(-9), WIPED, RENAMED], False),  # without notice it is no eviction
        ([exited(143), WIPED, RENAMED], False),
        ([sent(15), WIPED, RENAMED], False),
        ([], False),
    ],
)
def test_notice_end_disk_and_host_are_an_eviction(events: list[AnyEvent], lands: bool) -> None:
    assert (Evict().landed("1/after_act", events) is not None) is lands
