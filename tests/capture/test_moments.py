"""What is captured of a recorded run at each of its points, and when it is refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.capture import quiet
from chaos.capture.moments import TRIES, Recorder, Tied
from chaos.durable import Lease
from chaos.events.seen import Reached
from chaos.explorers.every import Every
from chaos.faults.kill import Kill
from chaos.journal import Journal
from chaos.plan import PROCESS_PHASES, Point
from chaos.results import KILLED
from chaos.route import Speed
from chaos.sandbox.process import ProcessSandbox
from chaos.verdict import CellVerdict
from chaos.world.server import World
from tests import toy
from tests.capture.recorded import Toy, recorded, run_scenario, setup_of, toying


def test_every_point_is_captured_once_in_the_order_of_the_run(tmp_path: Path) -> None:
    with recorded(tmp_path, setup_of(Toy(), "keeps")) as made:
        moments = list(made.deriver.moments.values())
        assert [moment.point for moment in moments] == list(made.deriver.moments)
        assert len(moments) == 4 * toy.STEPS + len(PROCESS_PHASES)
        for earlier, later in itertools.pairwise(moments):
            assert earlier.events < later.events and earlier.at <= later.at
            assert earlier.written_bytes <= later.written_bytes and earlier.pid == later.pid
        reached = [event for event in made.deriver.record.events if isinstance(event, Reached)]
        assert [(event.step, event.phase) for event in reached] == [(m.point.step, m.point.phase) for m in moments]
        for moment, event in zip(moments, reached, strict=True):
            assert (moment.seen is not None) == (event.phase == "after_commit") and moment.state == event.state
            assert made.deriver.record.events[: moment.events].count(event) == 1


def test_what_tells_crash_states_apart(tmp_path: Path) -> None:
    """Thinking leaves nothing, a file and an effect do; a commit does where something is kept."""
    for strategy, commits in (("keeps", True), ("forgets", False)):
        with recorded(tmp_path / strategy, setup_of(Toy(), strategy)) as made:
            one = {point.phase: moment.digests for point, moment in made.deriver.moments.items() if point.step == 1}
            assert one["before_think"] == one["before_act"] != one["after_act"]
            assert (one["after_act"] != one["after_commit"]) == commits
            act, before = (made.deriver.moments[Point(1, phase)].memory for phase in ("after_act", "before_act"))
            assert act.services != before.services and act.ledger != before.ledger, "the e-mail"


BUSY = """
import threading
threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()
work()
"""


def test_an_agent_that_is_never_still_is_stopped_for_the_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, resumed = [], []
    stop, resume = ProcessSandbox.stop, ProcessSandbox.resume
    monkeypatch.setattr(ProcessSandbox, "stop", lambda self: stopped.append(1) or stop(self))
    monkeypatch.setattr(ProcessSandbox, "resume", lambda self: resumed.append(1) or resume(self))
    with recorded(tmp_path, setup_of(Toy(BUSY, 2), "keeps"), toy.CHECKS) as made:
        assert len(made.deriver.moments) == 4 * 2 + 3
        assert len(stopped) == len(resumed) > 0
        told = made.told(made.derive("kill@0/after_act").record, "kill@0/after_act")
        assert told == made.told(made.execute("kill@0/after_act"), "kill@0/after_act")


class Turns:
    """Says that something has run, so many times."""

    def __init__(self, times: int) -> None:
        self.left: Iterator[int] = iter(range(2 * times))  # it is asked before and after

    def __call__(self, pids: object) -> tuple[object, ...]:
        return (str(next(self.left, "still")).encode(),)


@pytest.mark.parametrize(("times", "stops"), [(0, 0), (1, 0), (TRIES, 1), (2 * TRIES - 1, 1)])
def test_what_ran_meanwhile_is_captured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, stops: int
) -> None:
    stopped = []
    stop = ProcessSandbox.stop
    monkeypatch.setattr(ProcessSandbox, "stop", lambda self: stopped.append(1) or stop(self))
    monkeypatch.setattr(quiet, "turns", Turns(times))
    with recorded(tmp_path, setup_of(Toy(steps=1), "keeps")) as made:
        assert len(made.deriver.moments) == 4 + 3 and len(stopped) == stops


def test_what_never_stands_still_is_refused_and_run_for_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "turns", Turns(10**6))
    with (
        pytest.raises(Tied, match="did not stand still at 0/before_load, stopped as it was"),
        recorded(tmp_path / "recorded", setup_of(Toy(), "keeps")),
    ):
        pass
    ran = run_scenario(tmp_path / "fast", toying(toy.spec(Kill(), Every(("after_act",)))), Speed.FAST)
    assert {run.how for run in ran.runs} == {KILLED} and ran.cell.verdict is CellVerdict.RECOVERED
    assert ran.cell.real_because == "the agent's sandbox did not stand still at 0/before_load, stopped as it was"


def test_a_kernel_that_does_not_tell_who_ran_has_all_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "turns", lambda pids: None)
    with recorded(tmp_path, setup_of(Toy(), "keeps"), toy.CHECKS) as made:
        assert made.told(made.derive("kill@1/after_act").record, "kill@1/after_act").landed


class Unkept:
    """A server that cannot say what a run has there."""

    def keep(self, lease: Lease) -> None:
        return None


def test_what_a_server_cannot_give_back_ties_the_run_to_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    with World(toy.CountingBrain(), journal) as world, recorded(tmp_path, setup_of(Toy(), "keeps")) as made:
        recorder = Recorder(
            made.deriver._shelf, world, journal, {"queue": Unkept()}, {"queue": Lease("there", "")},  # type: ignore[dict-item]
            lambda sandbox: pytest.fail("nothing is looked at"),
        )  # fmt: skip
        with pytest.raises(Tied, match="what a run has on queue cannot be put back"):
            recorder.taken_before()
    journal.close()
