"""A run put together of a recorded one and of what really happened is judged as the same events are in one piece."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos import journal, registry
from chaos.checks import Terms
from chaos.events.done import Injecting, Signalled
from chaos.events.seen import Asked, Effected, Ended, Exited, Observation, Observed, Reached, Reloaded, Started
from chaos.journal import AnyEvent
from chaos.plan import STEP_PHASES
from chaos.record import Record
from chaos.rig import Setup
from chaos.splice import Joint, Spliced, spliced
from chaos.targets import Facts
from chaos.targets.planted import Planted
from chaos.targets.reference import Reference
from chaos.verdict import CellVerdict, Outcome
from tests import toy
from tests.cells import SEED, ReferenceCell
from tests.splices import FACTS, FAULTS, GOAL, Teller, digests, everything, properties, setup, terms


@dataclass
class Splice:
    """The parts of a derived run, and the events of the whole."""

    reference: Record
    prefix: int
    middle: tuple[AnyEvent, ...]
    rest: int | None

    @property
    def whole(self) -> list[AnyEvent]:
        """All events, moved one by one."""
        events = [*self.reference.events[: self.prefix], *self.middle]
        if self.rest is not None:
            attempt = max((event.attempt for event in events), default=0)
            late = journal.delay(self.reference.events, self.rest, events[-1] if events else None)
            events += [journal.moved(event, attempt, late) for event in self.reference.events[self.rest :]]
        return events

    def made(self, volatile: tuple[str, ...] = ()) -> Record:
        return spliced(self.reference, self.prefix, self.middle, self.rest, volatile)


def drawn(rng: random.Random) -> Splice:
    """Return the parts of a run at random: a recorded run, where it was left, what happened, where it goes on."""
    first = Teller(rng, attempt=0, steps=rng.randrange(1, 5))
    for _ in range(rng.choice((0, 0, 2))):
        first.add(Effected, service="s", operation="o", identity="s.o:9", payload="")
    first.attempt = 1
    first.add(Started, pid=1, hostname="h", thread_id="t")
    for _ in range(rng.randrange(25)):
        first.something()
    first.finish()
    reference = Record(first.events, rng.choice(((), ("$.n",))))
    prefix = rng.randrange(len(first.events) + 1)
    begun = first.events[:prefix]
    middle = Teller(rng, at=begun[-1].at if begun else 0.0, steps=first.steps, told=digests(begun))
    middle.answered = {event.prompt for event in begun if isinstance(event, Asked) and event.status == 200}
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        middle.harm()
        for _ in range(rng.randrange(6)):
            middle.something(rng.choice((None, None, None, 1, middle.attempt)))
    rest = rng.randrange(len(first.events) + 1) if rng.random() < 0.3 else rng.randrange(prefix, len(first.events) + 1)
    if rng.random() < 0.6:  # an agent that is nearly right does once more what the recorded one did
        stretch = first.events[rng.randrange(prefix + 1) if rng.random() < 0.3 else prefix : rest]
        if rng.random() < 0.3:
            rng.shuffle(stretch)
        for event in stretch:
            for _ in range(rng.choice((1,) * 12 + (0, 2))):
                middle.again(event, reference)
    if rng.random() < 0.2:
        middle.finish()
        return Splice(reference, prefix, tuple(middle.events), None)
    for event in first.events[:rest]:  # the world remembers the same there
        if isinstance(event, Asked) and not middle.told.issuperset(event.added):
            middle.again(event, reference)
    return Splice(reference, prefix, tuple(middle.events), rest)


@settings(max_examples=250, deadline=None)
@given(st.integers(0, 2**32))
def test_it_is_judged_as_the_same_events_in_one_piece(seed: int) -> None:
    rng = random.Random(seed)
    parts, made = drawn(rng), setup()
    plan = "+".join(f"{rng.choice(tuple(FAULTS))}@recovery/after_load" for _ in range(6))
    volatile, given_terms = rng.choice((parts.reference.volatile, ("$.n",))), terms(rng)
    run, whole = parts.made(volatile), Record(parts.whole, volatile)
    assert isinstance(run, Spliced)
    before = everything(run, parts.reference, plan, made, FACTS, given_terms)
    assert before == everything(whole, parts.reference, plan, made, FACTS, given_terms)
    assert properties(run) == properties(whole)
    assert before == everything(parts.made(volatile), parts.reference, plan, made, FACTS, given_terms), "a second time"
    other = Record(parts.reference.events[:-1])  # it is judged beside any other run, too
    assert everything(run, other, plan, made, FACTS, Terms()) == everything(whole, other, plan, made, FACTS, Terms())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_looked_up_is_what_is_there(seed: int) -> None:
    parts = drawn(random.Random(seed))
    run, whole = parts.made().index, Record(parts.whole).index
    assert len(run) == len(whole)
    for kind in (Asked, Reached, Effected, Injecting):
        assert tuple(run.all(kind)) == tuple(whole.all(kind))
        assert list(reversed(run.all(kind))) == list(reversed(whole.all(kind)))
        assert [run.at(place) for place in whole.column(kind)[0]] == whole.column(kind)[1]
    for begin, end in ((0, len(whole)), (3, 9), (len(whole) // 2, len(whole)), (4, 4)):
        assert tuple(run.window(begin, min(end, len(whole)))) == tuple(whole.events[begin:end])
    assert run.lives == whole.lives
    assert run.attempts == whole.attempts
    assert {a: tuple(run.points(a)) for a in range(8)} == {a: tuple(whole.points(a)) for a in range(8)}
    asked = Record(parts.whole)
    for one, other in zip(run.all(Asked), asked.all(Asked), strict=True):
        assert tuple(parts.made().prefixes(one)) == tuple(asked.prefixes(other))
        assert parts.made().conversation(one) == asked.conversation(other)


@pytest.mark.parametrize(
    ("order", "says"), [("12", ""), ("21", "s.o came before s.o"), ("121", "2 times"), ("1", "never")]
)
def test_effects_of_the_middle_in_another_order(order: str, says: str) -> None:
    def effect(number: str, attempt: int) -> Effected:
        return Effected(at=1.0, attempt=attempt, service="s", operation="o", identity=f"s.o:{number}", payload=number)

    teller = Teller(random.Random(1))
    teller.add(Started, pid=1, hostname="h", thread_id="t")
    teller.events += [effect(number, 1) for number in "0123"]
    teller.add(Ended, how="finished")
    parts = Splice(Record(teller.events), 2, tuple(effect(number, 2) for number in order), 4)
    for one in (parts.made(), Record(parts.whole)):
        verdict = registry.load("checks", "effects")().check(one, parts.reference, Terms(), Facts(GOAL))
        assert says in verdict.finding
        assert (verdict.outcome is Outcome.PASS) is (not says)


def step(teller: Teller, number: int) -> None:
    """Do a step as it should be done."""
    for phase in STEP_PHASES:
        state = f"s{number + (phase == 'after_commit')}"
        teller.add(Reached, step=number, phase=phase, key=f"step-{number}", state=state)
        if phase == "before_think":
            words = ["sys", GOAL, *map(str, range(number))]
            teller.ask(
                words, status=200, goal=GOAL, budget=number, budget_tokens=0, spoiled="", refused="", retry_after=None
            )
        if phase == "before_act":
            fields = {"service": "s", "operation": "o", "payload": "", "key": f"k{number}"}
            teller.add(Effected, identity=f"s.o:{number}", **fields)


@pytest.mark.parametrize("steps", [40, 400])
def test_a_right_run_is_judged_by_what_really_happened_alone(steps: int) -> None:
    first, made = Teller(random.Random(1)), setup()
    first.add(Started, pid=1, hostname="h", thread_id="t")
    for number in range(steps):
        step(first, number)
    first.add(Reached, step=steps, phase="finished", key="", snapshot=msgspec.Raw(b'{"messages":[]}'))
    first.add(Observed, step=steps, phase="finished", seen=Observation(files=(), repositories=(), processes=()))
    first.add(Exited, status=0)
    first.add(Ended, how="finished")
    first.add(Reloaded, state=msgspec.Raw(b'{"messages":[]}'))
    reference = Record(first.events)
    after = [place + 1 for place, event in enumerate(first.events) if getattr(event, "phase", "") == "after_commit"]
    prefix, rest = after[steps // 2], after[steps // 2 + 2]
    middle = Teller(random.Random(1), at=first.events[prefix - 1].at, told=digests(first.events[:prefix]))
    middle.add(Injecting, index=0, fault="kill", point="1/after_commit")
    middle.add(Signalled, pid=1, signal=9)
    middle.add(Exited, status=-9)
    middle.attempt = 2
    middle.add(Started, pid=2, hostname="h", thread_id="t")
    for number in (steps // 2 + 1, steps // 2 + 2):
        step(middle, number)
    run = spliced(reference, prefix, middle.events, rest)
    judged = everything(run, reference, "kill@1/after_commit", made, Facts(GOAL), Terms())
    assert judged["verdict"] is CellVerdict.RECOVERED
    assert isinstance(run.index, Joint)
    assert "events" not in vars(run)
    assert {type(event) for event in run.index.looked_at} <= {Reached, Observed, Exited, Ended, Reloaded, Asked}
    assert len(run.index.looked_at) < 12


def test_a_record_that_restarts_by_itself_is_put_together_whole() -> None:
    teller = Teller(random.Random(1))
    for attempt in (1, 2):
        teller.attempt = attempt
        teller.something()
    teller.finish()
    parts = Splice(Record(teller.events), 1, (), 1)
    assert parts.made().events == tuple(parts.whole)


# Real runs


def cuts(reference: Record, run: Record) -> list[Splice]:
    """Return all derived runs that *run*, which was killed once, shows: where it was left, and each end of a step."""
    start = next(place for place, event in enumerate(run.events) if isinstance(event, Injecting))
    here = [event for event in run.events[:start] if isinstance(event, Reached)]
    announced = [place for place, event in enumerate(reference.events) if isinstance(event, Reached)]
    prefix = announced[len(here) - 1] + 1
    there = {(e.step, e.phase): n for n, e in enumerate(reference.events) if isinstance(e, Reached)}
    found = [Splice(reference, prefix, run.events[start:], None)]
    for place, event in enumerate(run.events[start:], start):
        if isinstance(event, Reached) and event.attempt == 2 and (event.step, event.phase) in there:
            rest, middle = there[event.step, event.phase] + 1, run.events[start : place + 1]
            if digests(reference.events[:rest]) == digests((*reference.events[:prefix], *middle)):
                found.append(Splice(reference, prefix, middle, rest))
    return found


def compare(parts: list[Splice], plan: str, made: Setup, facts: Facts) -> Counter[str]:
    """Compare what all *parts* are judged with one piece; return how often each check failed."""
    failed: Counter[str] = Counter()
    for one in parts:
        for asked in (Terms(), Terms(max_lost_steps=0, effects="at-least-once")):
            run, whole = one.made(), Record(one.whole)
            judged = everything(run, one.reference, plan, made, facts, asked)
            assert judged == everything(whole, one.reference, plan, made, facts, asked)
            failed.update(name for name in registry.names("checks") if judged[name].outcome is Outcome.FAIL)
        assert properties(one.made()) == properties(Record(one.whole))
    return failed


@pytest.mark.parametrize("code", ["work()", "work(keyed=False)"])
def test_toy_runs_cut_at_every_point(tmp_path: Path, code: str) -> None:
    reference = toy.run(tmp_path / "reference").record
    parts = []
    for phase in ("after_act", "after_commit", "before_think"):
        plan = f"kill@1/{phase}"
        parts += cuts(reference, toy.run(tmp_path / phase, plan=plan, faults=setup().faults).record)
    compare(parts, "kill@1/after_act", setup(), Facts(GOAL))
    assert len(parts) > 10


@pytest.mark.parametrize(
    ("target", "strategy", "breaks"),
    [
        (Reference(steps=16), "chat_history", {"budget", "state"}),
        (Planted(bug="none", steps=16), "loop", {"recovery"}),
        (Planted(bug="effect_without_key", steps=16), "loop", {"effects"}),
    ],
)
def test_runs_of_the_reference_agent_cut_at_every_point(
    tmp_path: Path, target: Reference, strategy: str, breaks: set[str]
) -> None:
    cell = ReferenceCell(tmp_path, target, strategy)
    parts: list[Splice] = []
    for point in ("12/after_act", "5/during_commit"):
        parts += cuts(cell.reference, cell.run(f"kill@{point}").record)
    failed = compare(parts, "kill@12/after_act", cell.setup, target.facts(SEED))
    assert len(parts) > 4
    assert failed.keys() >= breaks
