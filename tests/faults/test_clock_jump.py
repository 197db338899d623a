"""The clock jumps under a running agent or between two lives of it, and the proof is that its processes read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.events.done import ClockMoved, ClockRead
from chaos.events.seen import Exited
from chaos.faults.clock_jump import ClockJump
from chaos.faults.kill import Kill
from chaos.journal import AnyEvent
from chaos.sandbox.process import able
from chaos.targets.reference import Reference
from chaos.verdict import CellVerdict
from tests import toy
from tests.cells import ReferenceCell

pytestmark = pytest.mark.skipif(bool(able().clock), reason=able().clock)

HOUR = 3600
TELL = "say(int(time.time())); "
BLIND = (  # it starts itself anew without the library
    "if os.environ.pop('LD_PRELOAD', ''): os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ)\n"
    "work()"
)


@pytest.mark.parametrize(("direction", "sign"), [("back", -1), ("forward", 1)])
def test_a_running_agent_sees_the_wall_clock_jump_and_nothing_else(tmp_path: Path, direction: str, sign: int) -> None:
    code = TELL + "begun = time.monotonic(); work(); " + TELL + "say(time.monotonic() - begun < 100)"
    fault = ClockJump(seconds=HOUR, direction=direction)  # type: ignore[arg-type]
    ran = toy.run(tmp_path, code, "jump@1/after_act", {"jump": fault})
    before, after, sane = ran.told
    assert int(after) - int(before) == pytest.approx(sign * HOUR, abs=60)
    assert (ran.statuses, sane) == ([0], "True")
    (landed,) = ran.landed
    assert (landed.fault, landed.how) == ("clock_jump", "jumped")
    assert landed.evidence["jumped_seconds"] == sign * HOUR


def test_with_a_kill_the_next_life_begins_under_the_other_clock(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, TELL + "work()", "jump@1/after_act", {"jump": ClockJump(with_kill=True)})
    assert ran.statuses == [-9, 0]
    first, second = map(int, ran.told)
    assert second - first == pytest.approx(-HOUR, abs=60)
    (landed,) = ran.landed
    assert landed.evidence["read_in_attempt"] == 2


def test_an_agent_that_does_not_see_it_proves_nothing(tmp_path: Path) -> None:
    run, cell = toy.replay(tmp_path / "blind", ClockJump(), "clock_jump@1/after_act", target=toy.Toy(BLIND))
    assert run.verdict is CellVerdict.NOT_EXERCISED
    assert run.missed == ("clock_jump@1/after_act was injected and left no proof that it hit",)
    assert not cell.passed


def moved(attempt: int = 1) -> ClockMoved:
    return ClockMoved(at=1.0, attempt=attempt, seconds=-HOUR, before_seconds=0.0, after_seconds=-3600.0)


def read(attempt: int = 1) -> ClockRead:
    return ClockRead(at=3.0, attempt=attempt, offset_seconds=-HOUR)


def exited(status: int = -9) -> Exited:
    return Exited(at=2.0, attempt=1, status=status)


@pytest.mark.parametrize(
    ("events", "running", "killed"),
    [
        ([moved(), read()], True, False),
        ([moved(), exited(), read(2)], True, True),
        ([exited(), moved(), read(1)], True, False),  # read by the incarnation that is dead: not after the jump
        ([moved(), exited(1), read(2)], True, False),  # it ended on its own
        ([moved(), exited()], False, False),
        ([read()], False, False),
        ([], False, False),
    ],
)
def test_what_is_a_proof(events: list[AnyEvent], running: bool, killed: bool) -> None:
    assert (ClockJump().landed("1/after_act", events) is not None) is running
    assert (ClockJump(with_kill=True).landed("1/after_act", events) is not None) is killed


@pytest.fixture(scope="module")
def langgraph(tmp_path_factory: pytest.TempPathFactory) -> ReferenceCell:
    faults = {"kill": Kill(), "jump": ClockJump(with_kill=True)}
    return ReferenceCell(tmp_path_factory.mktemp("cell"), Reference(steps=12), "full_snapshot", {}, faults)


def test_langgraph_loses_what_it_writes_after_the_clock_was_set_back(langgraph: ReferenceCell) -> None:
    ran = langgraph.run("jump@6/after_act+kill@9/before_act")
    assert "the state read back by another process differs" in ran.broken()["state"]
    assert ran.record.resumed_turn == {1: 0, 2: 6, 3: 7}  # two steps were on disk and were not found
