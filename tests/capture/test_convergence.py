"""When a resumed agent counts as equal to the recorded one: all that is looked at must agree, twice running."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from chaos.capture import convergence
from chaos.events.seen import Asked, Ended, Reached
from chaos.faults import Fault
from chaos.faults.kill import Kill
from chaos.faults.rate_limit import RateLimit
from chaos.journal import read
from chaos.targets.planted import Planted
from chaos.verdict import Outcome
from tests import toy
from tests.capture.recorded import Toy, recorded, setup_of

STEPS = 7
PLAN = "kill@2/after_act"

DIFFERENCES = {
    "state": "toy.digest = lambda answers: 'other'",
    "no state": "toy.digest = lambda answers: None",
    "prompt": "toy.GOAL = 'Rule the world.'",
    "effect": "toy.post('/email/send', {'to': 'the boss'}, {}, toy.SERVICES)",
    "effect with another key": "toy.post('/email/send', {'to': 'team'}, {'Idempotency-Key': 'other'}, toy.SERVICES)",
    "process": "import subprocess; beside = subprocess.Popen(['sleep', '1000'])",
    "file": "Path('extra').write_text('x')",
    "mode of a file": "os.chmod('0.txt', 0o600)",
    "file in tmp": "Path(os.environ['CHAOS_TMP'], 'extra').write_text('x')",
}  # fmt: skip


@pytest.mark.parametrize("difference", DIFFERENCES)
def test_an_agent_that_differs_is_seen_through(tmp_path: Path, difference: str) -> None:
    code = f"if toy.LOG.exists():\n    {DIFFERENCES[difference]}\nwork()"
    with recorded(tmp_path, setup_of(Toy(code, STEPS), "keeps"), toy.CHECKS) as made:
        derived = made.derive(PLAN)
        assert derived.rest is None
        assert sum(isinstance(event, Ended) for event in derived.middle) == 1


def test_a_sibling_without_a_difference_is_stopped_after_two_commits(tmp_path: Path) -> None:
    with recorded(tmp_path, setup_of(Toy("if toy.LOG.exists():\n    pass\nwork()", STEPS), "keeps")) as made:
        derived = made.derive(PLAN)
        commits = [
            event.step for event in derived.middle if isinstance(event, Reached) and event.phase == "after_commit"
        ]
        assert commits == [2, 3] and len(commits) == convergence.RUNNING
        assert derived.rest is not None and isinstance(derived.record.events[-1], type(made.deriver.record.events[-1]))
        assert tuple(derived.record.events) == read(derived.journal)


def test_to_be_equal_once_is_not_enough(tmp_path: Path) -> None:
    """Every other commit differs, in a file that is there for one step."""
    code = """
def commits(step, number):
    Path('odd').write_text('x') if number % 2 else Path('odd').unlink(missing_ok=True)
resumed = toy.LOG.exists()
answers = begin()
while len(answers) < toy.STEPS:
    if resumed:
        commits(answers, len(answers))
    step(answers)
Path('odd').unlink(missing_ok=True)
finish(answers)
"""
    with recorded(tmp_path, setup_of(Toy(code, STEPS), "keeps"), toy.CHECKS) as made:
        derived = made.derive(PLAN)
        assert derived.rest is None
        assert set(made.told(derived.record, PLAN).checks.values()) == {Outcome.PASS}


def test_an_agent_that_asks_nothing_shows_nothing(tmp_path: Path) -> None:
    """What it repeats from its own notes, as a replay does, is no proof that it would go on alike."""
    code = """
def noted(answers):
    note = toy.DURABLE / f'note-{len(answers)}'
    if not note.exists():
        note.write_text(asked(answers))
    return note.read_text()
asked, toy.ask, toy.KEEPS = toy.ask, noted, False
work()
"""
    with recorded(tmp_path, setup_of(Toy(code, STEPS), "keeps"), toy.CHECKS) as made:
        derived = made.derive(PLAN)
        asked = [event.turn for event in derived.middle if isinstance(event, Asked)]
        assert asked == [3, 4] and derived.rest is not None


def test_an_agent_that_says_nothing_of_its_state_may_have_any(tmp_path: Path) -> None:
    """It took up something wrong, which neither a prompt shows nor its store, until it is asked in the end."""
    code = """
toy.digest = lambda answers: None
wrong = toy.LOG.exists()
answers = begin()
while len(answers) < toy.STEPS:
    step(answers)
point('finished', len(answers), snapshot={'answers': answers, 'wrong': wrong})
"""
    with recorded(tmp_path, setup_of(Toy(code, STEPS), "keeps"), toy.CHECKS) as made:
        derived = made.derive(PLAN)
        told = made.told(derived.record, PLAN)
        assert told.checks["state"] is Outcome.FAIL and derived.rest is None
        assert told == made.told(made.execute(PLAN), PLAN)


def test_nothing_is_stopped_before_the_last_fault_has_hit(tmp_path: Path) -> None:
    faults: Mapping[str, Fault] = {"kill": Kill(), "rate_limit": RateLimit(1, 0.001)}
    plan = f"{PLAN}+rate_limit@recovery/5/before_think"
    with recorded(tmp_path, setup_of(Toy(steps=STEPS + 2), "keeps", faults), toy.CHECKS) as made:
        assert made.derive(PLAN).rest is not None
        derived = made.derive(plan)
        assert 429 in [event.status for event in derived.middle if isinstance(event, Asked)]
        commits = [
            event.step for event in derived.middle if isinstance(event, Reached) and event.phase == "after_commit"
        ]
        assert commits == [2, 3, 4, 5, 6, 7] and derived.rest is not None
        assert made.told(derived.record, plan) == made.told(made.execute(plan), plan)


def test_a_difference_that_only_the_conversation_shows_is_seen(tmp_path: Path) -> None:
    """What this agent keeps in a global is neither announced nor stored: the next prompt lacks it."""
    with recorded(tmp_path, setup_of(Planted("state_in_global", 12), "loop")) as made:
        derived = made.derive("kill@8/before_think")
        assert derived.rest is None
        assert made.told(derived.record, "kill@8/before_think").checks["state"] is Outcome.FAIL
