"""Equal crash states lead to equal runs: what one led to is told of another as if that one had been run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from chaos.events.done import Injecting
from chaos.events.seen import Asked
from chaos.faults import Fault
from chaos.faults.corrupt_delta import CorruptDelta
from chaos.faults.crash_loop import CrashLoop
from chaos.faults.kill import Kill
from chaos.plan import parse_plan
from chaos.run import Setup
from chaos.targets.planted import Planted
from chaos.targets.reference import Reference
from tests import toy
from tests.capture.recorded import Recorded, Toy, recorded, setup_of

FULL = {"planted": (Planted(steps=12), "loop"), "langgraph": (Reference(steps=12), "full_snapshot")}


def compared(made: Recorded) -> tuple[int, int]:
    """Compare what is told of a class's points with runs of their own; return how many points, how many compared."""
    plans, compared = made.plans(), 0
    digests = Counter(moment.digests for moment in made.deriver.moments.values())
    for plan in plans:
        if digests[made.deriver.moments[plan.faults[0].point].digests] == 1:
            continue  # like no other
        derived = made.derive(plan, prune=True)
        if derived.like == plan:
            continue
        compared += 1
        own = made.derive(plan)
        assert own.like == plan
        assert made.told(derived.record, plan) == made.told(own.record, plan)
        (injecting,) = (event for event in derived.record.events if isinstance(event, Injecting))
        assert injecting.point == str(plan.faults[0].point)
    return len(plans), compared


@pytest.mark.parametrize("target", FULL)
def test_every_point_is_told_as_if_it_had_been_run(tmp_path: Path, target: str) -> None:
    with recorded(tmp_path, setup_of(*FULL[target])) as made:
        points, equal = compared(made)
        assert points == 60 and equal >= 12  # nothing is stored between `before_think` and `before_act`


ASKS = {
    "writes files": "work()",
    "leaves nothing": "toy.write = lambda number, answer: None\nwork()",
}


@pytest.mark.parametrize("code", ASKS.values(), ids=ASKS)
def test_what_is_asked_again_depends_on_what_was_asked_before(tmp_path: Path, code: str) -> None:
    """An agent that keeps nothing leaves the same disk everywhere, and pays twice for what it had asked."""
    with recorded(tmp_path, setup_of(Toy(code, 5), "forgets"), toy.CHECKS) as made:
        points, equal = compared(made)
        assert points == 20 and equal >= 10
        again = [
            [event.again for event in made.derive(plan, prune=True).middle if isinstance(event, Asked)]
            for plan in ("kill@1/before_think", "kill@1/before_act")
        ]
        assert again[0] != again[1], "nothing was asked between the two, so this test shows nothing"


def setup() -> Setup:
    faults: Mapping[str, Fault] = {
        "kill": Kill(), "again": Kill(), "crash_loop": CrashLoop(times=2), "damage": CorruptDelta(),
    }  # fmt: skip
    return setup_of(Toy(), "keeps", faults)


def test_only_what_is_equal_stands_for_another(tmp_path: Path) -> None:
    with recorded(tmp_path, setup(), toy.CHECKS) as made:
        made.derive("kill@2/before_think", prune=True)
        for plan, like in (
            ("kill@2/before_act", "kill@2/before_think"),
            ("kill@2/before_think", "kill@2/before_think"),
            ("crash_loop@2/before_act", ""),  # another fault
            ("kill@2/after_act", ""),  # a file was written
            ("kill@2/before_act+kill@recovery/after_load", ""),  # what follows may be anywhere
            ("damage@2/before_think", ""),  # draws
            ("damage@2/before_act", ""),
        ):
            derived = made.derive(plan, prune=True)
            assert str(derived.like) == (like or plan)


def test_an_earlier_point_is_not_told_from_a_later_one(tmp_path: Path) -> None:
    """What had been asked by then is in the later one's run; not all that it is told of it could be undone."""
    with recorded(tmp_path, setup_of(Toy(), "forgets"), toy.CHECKS) as made:
        assert made.derive("kill@2/before_act", prune=True).like == parse_plan("kill@2/before_act")
        earlier = made.derive("kill@2/before_think", prune=True)
        assert earlier.like == parse_plan("kill@2/before_think")
        assert made.derive("kill@2/before_act", prune=True).like == parse_plan("kill@2/before_think")


def test_the_ledger_tells_crash_states_apart(tmp_path: Path) -> None:
    """An e-mail without a key: the disk is the same before and after it, and the service remembers the same."""
    code = """
answers = begin()
while len(answers) < toy.STEPS:
    number = len(answers)
    if number == 1:
        toy.post('/email/send', {'to': 'all'}, {}, toy.SERVICES)
        point("before_act", number)
        toy.post('/email/send', {'to': 'all'}, {}, toy.SERVICES)
    step(answers)
finish(answers)
"""
    with recorded(tmp_path, setup_of(Toy(code), "keeps"), toy.CHECKS) as made:
        once, twice = "kill@1/before_act", "kill@1/before_think"
        moments = [made.deriver.moments[parse_plan(plan).faults[0].point] for plan in (once, twice)]
        assert moments[0].capture.digests == moments[1].capture.digests
        assert moments[0].memory.services == moments[1].memory.services
        assert made.derive(once, prune=True).like != made.derive(twice, prune=True).like
        for plan in (once, twice):
            assert made.told(made.derive(plan, prune=True).record, plan) == made.told(made.execute(plan), plan)
