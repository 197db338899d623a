"""Two workers on one thread, both really alive."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from chaos import judge
from chaos.checks import Terms
from chaos.checks.fencing import Fencing
from chaos.errors import HarnessError
from chaos.events.done import HeartbeatMissed, Overlapped, PresumedDead
from chaos.events.seen import Asked, Effected, Exited, Observed, Reached, Started
from chaos.faults import Disk, Scene, Wakes
from chaos.faults.evict import Evict
from chaos.faults.false_dead import FalseDead
from chaos.faults.kill import Kill
from chaos.journal import AnyEvent
from chaos.landing import misses
from chaos.plan import parse_plan
from chaos.record import Record
from chaos.sandbox.process import able
from chaos.sandbox.tree import alive
from chaos.verdict import CellVerdict, Outcome
from tests import toy
from tests.test_run import temporary as temporary  # whatever happens here leaves nothing behind

AT = "false_dead@1/after_act"
needs_hostname = pytest.mark.skipif(bool(able().hostname), reason=able().hostname or "-")


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is opened once and kept is no leak."""
    toy.run(tmp_path_factory.mktemp("warm"), "sys.exit(0)")


FENCED = """
import fcntl, io
def epoch(change=0):
    with open(toy.DURABLE / 'epoch', 'a+') as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        now = int(file.read() or 0) + change
        if change: file.truncate(0); file.write(str(now))
        return now
mine = epoch(1)
plain = toy.point
def checked(*words, **more):
    plain(*words, **more)
    if epoch() != mine: sys.exit('another worker has taken over')
toy.point = checked
work()
"""


def run(folder: Path, code: str = "work()", plan: str = AT, disk: Disk = "own", wakes: Wakes = "resumed",
        steps: int = 4, **limits: object) -> toy.Ran:  # fmt: skip
    faults = {"false_dead": FalseDead(disk, wakes), "kill": Kill(), "evict": Evict(grace=0.0)}
    return toy.run(folder, code, plan, faults, steps=steps, **limits)


def fencing(record: Record) -> Outcome:
    target = toy.Toy()
    return Fencing().check(record, record, Terms(), target.facts(toy.SEED)).outcome


def moves(ran: toy.Ran) -> list[int]:
    """Who announced each point since both were up."""
    events = ran.record.events
    since = events.index(next(event for event in events if isinstance(event, Overlapped)))
    return [event.attempt for event in events[since:] if isinstance(event, Reached) and event.phase != "before_load"]


@pytest.mark.parametrize("wakes", ["resumed", "finished"])
@pytest.mark.parametrize("disk", ["own", "shared"])
def test_two_workers_live_at_once_and_the_run_ends_with_both(tmp_path: Path, disk: Disk, wakes: Wakes) -> None:
    ran = run(tmp_path, disk=disk, wakes=wakes)
    (landed,) = ran.landed
    first, second = ran.all(Started)
    (both,) = ran.all(Overlapped)
    assert (both.first, both.second) == (first.pid, second.pid)
    assert landed.how == "two workers at once"
    assert sorted((event.attempt, event.status) for event in ran.all(Exited)) == [(1, 0), (2, 0)]
    assert ran.record.finished
    assert ran.record.final_state == {"answers": [f"answer {number}" for number in range(4)]}
    assert not alive(first.pid)
    assert not alive(second.pid)


def test_every_event_belongs_to_the_worker_that_caused_it(tmp_path: Path) -> None:
    ran = run(tmp_path, plan="false_dead@1/before_act")
    assert ran.reached("after_act", attempt=1) == [0, 1, 2, 3]
    assert ran.reached("after_act", attempt=2) == [1, 2, 3]
    assert [event.turn for event in ran.all(Asked) if event.attempt == 1] == [0, 1, 2, 3]
    assert [event.turn for event in ran.all(Asked) if event.attempt == 2] == [1, 2, 3]
    assert sorted((event.attempt, event.deduplicated) for event in ran.all(Effected)) == [(1, False), (2, True)]
    assert ran.record.attempts == 2


def test_the_first_stands_until_the_second_has_loaded_and_then_they_move_in_turn(tmp_path: Path) -> None:
    order = moves(run(tmp_path / "a"))
    assert order[0] == 2  # after_load
    assert order[1:9] == [1, 2] * 4
    assert moves(run(tmp_path / "b")) == order, "the same in every run"


def test_one_that_wakes_up_late_finds_all_done(tmp_path: Path) -> None:
    order = moves(run(tmp_path, wakes="finished"))
    assert order == sorted(order, reverse=True)  # all of the second's points, then those of the first


@needs_hostname
@pytest.mark.parametrize(("disk", "hosts"), [("own", 2), ("shared", 1)])
def test_the_second_has_a_disk_of_its_own_or_the_same(tmp_path: Path, disk: Disk, hosts: int) -> None:
    code = "say((socket.gethostname(), sorted(os.listdir()), os.environ['TOY_PORT'])); work()"
    first, second = map(eval, run(tmp_path, code, disk=disk).told)
    assert len({first[0], second[0]}) == hosts
    assert first[1] == []
    assert second[1] == ([] if disk == "own" else ["0.txt", "1.txt"])
    assert first[2] != second[2]  # ports are those of a worker


def test_the_end_is_observed_when_both_are_done(tmp_path: Path) -> None:
    """What the late one does to a shared disk is seen."""
    late = "work()\nif os.environ['TOY_PORT'] == (toy.DURABLE / 'port').read_text(): toy.Path('late').touch()"
    code = f"port = toy.DURABLE / 'port'\nif not port.exists(): port.write_text(os.environ['TOY_PORT'])\n{late}"
    ran = run(tmp_path, code, disk="shared", wakes="finished")
    seen = ran.record.final_observation
    assert seen is not None
    assert "workspace/late" in {entry.path for entry in seen.files}
    assert [event.attempt for event in ran.all(Observed) if event.phase == "finished"] == [2]


def test_who_does_not_look_acts_beside_its_successor(tmp_path: Path) -> None:
    assert fencing(run(tmp_path).record) is Outcome.FAIL


@pytest.mark.parametrize("wakes", ["resumed", "finished"])
def test_who_looks_before_it_acts_stops_and_nothing_is_lost(tmp_path: Path, wakes: Wakes) -> None:
    ran = run(tmp_path, FENCED, wakes=wakes)
    assert [event.status for event in ran.record.exits] == [1, 0]
    assert ran.record.exits[0].log == "another worker has taken over"
    assert fencing(ran.record) is Outcome.PASS
    assert ran.record.finished
    assert ran.record.crashes == ()
    assert ran.record.final_state == ran.record.reloaded_state


def test_a_correct_worker_recovers_by_all_checks(tmp_path: Path) -> None:
    reference, ran = run(tmp_path / "reference", FENCED, "no fault"), run(tmp_path / "run", FENCED)
    names = (*toy.CHECKS, "fencing")
    facts = toy.Toy(steps=4).facts(toy.SEED)
    verdicts = judge.judge(ran.record, reference.record, names, Terms(), facts)
    assert {name: verdict for name, verdict in verdicts.items() if verdict.outcome} == {}
    assert judge.run_verdict(verdicts, ran.record, 1, len(ran.landed)) is CellVerdict.RECOVERED


def test_the_second_may_die_and_is_started_again_where_it_was(tmp_path: Path) -> None:
    ran = run(tmp_path, "say(os.getcwd()); work()", f"{AT}+kill@recovery/2/after_act", backoff_limit=4)
    assert [landed.fault for landed in ran.landed] == ["false_dead", "kill"]
    assert [event.attempt for event in ran.all(Exited) if event.status] == [2]
    assert ran.told[0] != ran.told[1] == ran.told[2]
    assert ran.record.finished


@needs_hostname
def test_the_second_may_be_evicted_and_the_first_keeps_its_disk(tmp_path: Path) -> None:
    ran = run(tmp_path, plan=f"{AT}+evict@recovery/1/before_act", wakes="finished", backoff_limit=4)
    assert len(ran.landed) == 2
    assert [event.hostname for event in ran.all(Started)] == ["chaos-node-1", "chaos-node-2", "chaos-node-3"]
    assert ran.reached("after_commit", attempt=1) == [0, 1, 2, 3]


def test_three_workers(tmp_path: Path) -> None:
    ran = run(tmp_path, plan=f"{AT}+false_dead@recovery/2/after_act", backoff_limit=4)
    assert len(ran.landed) == 2
    assert ran.record.presumed_dead == {1, 2}
    assert sorted(event.attempt for event in ran.all(Exited)) == [1, 2, 3]
    assert {event.attempt for event in ran.all(Reached) if event.phase == "finished"} == {1, 2, 3}


def test_a_second_that_waits_for_the_first_gets_what_it_waits_for(tmp_path: Path) -> None:
    """A lock for as long as a worker lives is a fence as well."""
    code = "import fcntl\nlock = open(toy.DURABLE / 'lock', 'w')\nfcntl.flock(lock, fcntl.LOCK_EX)\nwork()"
    ran = run(tmp_path, "point('before_load', 0)\n" + code)
    assert [event.status for event in ran.record.exits] == [0, 0]
    assert ran.reached("after_act", attempt=2) == []  # all is done when it comes to look
    assert fencing(ran.record) is Outcome.PASS


def test_a_first_that_never_ends_is_ended_by_the_watchdog(tmp_path: Path) -> None:
    code = "hung = toy.DURABLE / 'hung'\nif not hung.exists():\n hung.touch(); begin(); time.sleep(1000)\nwork()"
    ran = run(tmp_path, code, "false_dead@0/after_load", heartbeat_seconds=0.5)
    assert [event.status for event in ran.record.exits] == [-signal.SIGKILL, 0]
    assert [event.attempt for event in ran.all(HeartbeatMissed)] == [1]
    assert ran.record.finished


def test_without_a_restart_left_nobody_takes_over(tmp_path: Path) -> None:
    ran = run(tmp_path, backoff_limit=0)
    assert ran.landed == ()
    assert ran.record.ended == "gave up"
    assert [event.attempt for event in ran.all(Exited)] == [1]


def test_a_point_never_reached_proves_nothing(tmp_path: Path) -> None:
    plan = "false_dead@9/after_act"
    ran = run(tmp_path, plan=plan)
    assert ran.landed == ()
    assert misses(ran.record, parse_plan(plan), ran.setup) == (f"the agent never came to {plan}",)
    assert judge.run_verdict({}, ran.record, 1, len(ran.landed)) is CellVerdict.NOT_EXERCISED


class Interrupted(FalseDead):
    """Ctrl-C when both are there."""

    def inject(self, scene: Scene) -> None:
        super().inject(scene)
        raise KeyboardInterrupt


@pytest.mark.parametrize("disk", ["own", "shared"])
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, disk: Disk) -> None:
    with pytest.raises(KeyboardInterrupt):
        toy.run(tmp_path, plan=AT, faults={"false_dead": Interrupted(disk)})
    plan = f"{AT}+kill@recovery/after_load"

    class Late(Kill):
        def inject(self, scene: Scene) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        toy.run(tmp_path / "late", plan=plan, faults={"false_dead": FalseDead(disk), "kill": Late()})


def test_garbage_at_the_second_gate_is_an_error_too(tmp_path: Path) -> None:
    code = "if (toy.DURABLE / 'up').exists():\n from chaos import probe\n probe._connect().sendall(b'hello\\n')\n"
    with pytest.raises(HarnessError, match="it takes lines like"):
        run(tmp_path, f"{code} time.sleep(1000)\n(toy.DURABLE / 'up').touch()\nwork()")


def test_strategies_with_a_half_outside_are_not_suited() -> None:
    class Outside(toy.Keeps):
        outside = True  # type: ignore[misc]

    assert "half outside" in FalseDead().unsuited(None, Outside())
    assert FalseDead().unsuited(None, toy.Keeps()) == ""


DEAD = PresumedDead(at=1.0, attempt=1, pid=7, disk="own", wakes="resumed")
STARTED = Started(at=2.0, attempt=2, pid=8, hostname="chaos-node-2", thread_id="t")
BOTH = Overlapped(at=3.0, attempt=2, first=7, second=8, states=("T", "S"))
POINT = Reached(at=2.5, attempt=2, step=0, phase="before_load", key="k")


def exited(attempt: int, at: float) -> Exited:
    return Exited(at=at, attempt=attempt, status=0)


@pytest.mark.parametrize(
    ("events", "lands"),
    [
        ([DEAD, STARTED, POINT, BOTH, exited(1, 9.0), exited(2, 9.5)], True),
        ([DEAD, STARTED, POINT, BOTH], True),
        ([DEAD, STARTED, POINT, exited(1, 9.0)], False),  # nobody saw both
        ([DEAD, STARTED, BOTH, exited(1, 9.0)], False),  # the second never said anything
        ([DEAD, STARTED, BOTH, exited(1, 2.2), POINT], False),  # only when the first had ended
        ([STARTED, POINT, BOTH], False),
        ([DEAD], False),
        ([], False),
    ],
)
def test_two_in_proc_and_a_word_of_the_second_are_the_proof(events: list[AnyEvent], lands: bool) -> None:
    assert (FalseDead().landed("1/after_act", events) is not None) is lands
