"""Of two workers on one thread only one may act: judged on journals made by hand."""

from __future__ import annotations

from chaos.checks import Terms
from chaos.checks.fencing import Fencing
from chaos.events.done import PresumedDead
from chaos.events.seen import Effected, Exited, Reached, Started
from chaos.record import Record
from chaos.verdict import Outcome, Verdict
from tests.journals import FACTS, TERMS, Story, recovered, reference, stuck

MAIL, BILL = "email.send:alice", "payments.charge:42"
AT_LEAST_ONCE = Terms(effects="at-least-once")


class Two(Story):
    """Two workers: the first is taken for dead in step 1, and the second takes over."""

    def __init__(self) -> None:
        super().__init__()
        self.start().step(0, effects=False).reach(1, "before_think")
        self.add(PresumedDead, pid=101, disk="own", wakes="resumed")

    def by(self, attempt: int) -> Story:
        """What follows is done by *attempt*."""
        self.attempt = attempt
        return self

    def take_over(self) -> Story:
        self.attempt = 1
        return self.start(1)


def check(story: Story, terms: Terms = TERMS) -> Verdict:
    return Fencing().check(story.record, reference().record, terms, FACTS)


def told(story: Story) -> str:
    verdict = check(story)
    assert verdict.outcome is Outcome.FAIL
    return "\n".join((verdict.finding, *verdict.details))


def test_without_two_workers_there_is_nothing_to_say() -> None:
    for story in (reference(), recovered(), stuck()):
        assert check(story).outcome is Outcome.PASS


def test_a_first_worker_that_stops_is_right() -> None:
    two = Two().take_over()
    two.by(1).exit(1, "Fenced")  # type: ignore[attr-defined]
    two.by(2).steps(1).finish()  # type: ignore[attr-defined]
    assert check(two).outcome is Outcome.PASS


def test_an_effect_of_both_is_told_with_both_attempts() -> None:
    two = Two()
    two.take_over()
    two.by(1).effect(MAIL)
    two.by(2).effect(MAIL)
    text = told(two)
    assert text.startswith("email.send was done by two workers that lived at the same time")
    assert "attempt 1" in text
    assert "attempt 2" in text


def test_who_came_first_is_no_matter() -> None:
    two = Two()
    two.take_over()
    two.by(2).effect(MAIL)
    two.by(1).effect(MAIL)
    assert "email.send was done by two workers" in told(two)


def test_what_was_done_before_the_takeover_is_left_to_the_other_checks() -> None:
    """A kill leaves the same behind: an effect that nothing has recorded."""
    two = Two()
    two.by(1).effect(MAIL)
    two.take_over().effect(MAIL)
    assert check(two).outcome is Outcome.PASS


def test_a_key_that_the_service_knows_is_a_fence() -> None:
    two = Two()
    two.take_over()
    two.by(1).effect(BILL)
    two.by(2).effect(BILL, deduplicated=True)
    assert check(two).outcome is Outcome.PASS


def test_different_effects_are_a_division_of_labour() -> None:
    two = Two()
    two.take_over()
    two.by(1).effect(MAIL)
    two.by(2).effect(BILL)
    assert check(two).outcome is Outcome.PASS


def test_where_duplicates_are_allowed_they_are_allowed_to_two() -> None:
    two = Two()
    two.take_over()
    two.by(1).effect(MAIL)
    two.by(2).effect(MAIL)
    assert check(two, AT_LEAST_ONCE).outcome is Outcome.PASS


def test_steps_that_both_committed_are_listed() -> None:
    two = Two()
    two.take_over()
    for step in (1, 2):
        two.by(1).reach(step, "after_commit")
        two.by(2).reach(step, "after_commit")
    text = told(two)
    assert text.startswith("2 steps committed by two workers that lived at the same time, from step 1 on")
    assert "steps: 1, 2" in text


def test_a_worker_that_wakes_up_when_all_is_done_and_commits_is_caught() -> None:
    two = Two()
    two.take_over()
    two.by(2).steps(1).reach(4, "finished")
    two.by(1).step(1, effects=False)
    assert "1 step committed by two workers" in told(two)


def test_a_step_of_one_alone_is_no_conflict() -> None:
    two = Two()
    two.take_over()
    two.by(1).reach(1, "after_commit")
    two.by(2).reach(2, "after_commit")
    assert check(two).outcome is Outcome.PASS


def test_a_second_worker_that_never_loaded_took_nothing_over() -> None:
    """It waits for a lock, say: the first one goes on, rightly."""
    two = Two()
    two.attempt = 2
    two.add(Started, pid=102, hostname="node-2", thread_id="t").reach(0, "before_load")
    two.by(1).steps(1)
    assert check(two).outcome is Outcome.PASS


# -- the record of such a run


def test_the_record_is_that_of_the_worker_that_the_supervisor_believes_in() -> None:
    two = Two()
    two.take_over().steps(1).reach(4, "finished", snapshot={"by": 2})
    two.by(1).reach(4, "finished", snapshot={"by": 1}).exit(1, "Fenced")
    two.by(2).exit(0)
    record: Record = two.record
    assert record.attempts == 2
    assert record.presumed_dead == {1}
    assert record.final_state == {"by": 2}
    assert record.completed == {1, 2}
    assert record.resumed_turn == {1: 0, 2: 1}
    assert record.crashes == ()  # that the first ended with an error is what it should do
    assert [event.attempt for event in record.exits] == [1, 2]


def test_the_last_exit_is_that_of_the_last_incarnation() -> None:
    two = Two()
    two.take_over().exit(3, "ValueError: no")
    two.by(1).exit(0)
    exits: tuple[Exited, ...] = two.record.exits
    assert (exits[-1].attempt, exits[-1].status) == (2, 3)
    assert [event.attempt for event in two.record.crashes] == [2]


def test_effects_are_told_with_the_step_of_their_own_worker() -> None:
    two = Two()
    two.take_over().reach(1, "before_act")
    two.by(1).reach(3, "before_act")
    two.by(2).effect(MAIL)
    two.by(1).effect(BILL)
    record = two.record
    assert [(event.attempt, step) for event, step in zip(record.effects, record.effect_steps, strict=True)] == [
        (2, 1), (1, 3),
    ]  # fmt: skip
    assert all(isinstance(event, Effected) for event in record.effects)
    assert isinstance(record.points[0], Reached)
