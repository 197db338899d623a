from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import measure
from chaos.events.done import Injecting
from chaos.record import Record
from chaos.results import RecoveryTime, Storage, Tokens
from tests.journals import STEPS, Story, recovered, reference, refusing, stuck


def test_nothing_is_lost_where_nothing_crashed() -> None:
    run = reference().record
    assert measure.rpo_steps(run) == 0
    assert measure.rto(run) is None
    assert measure.tokens(run) == Tokens(useful=10 + 20 + 30 + 40 + 4 * 5)
    assert measure.steps(run) == STEPS
    assert measure.storage(run) == Storage(stored=5000, written=1000)


def test_an_empty_run_measures_nothing() -> None:
    assert measure.rpo_steps(Record([])) == measure.steps(Record([])) == 0
    assert measure.rto(Record([])) is None


@given(at=st.integers(0, STEPS - 1), data=st.data())
def test_lost_steps_are_those_between_the_act_and_the_turn_asked_next(at: int, data: st.DataObject) -> None:
    resume = data.draw(st.integers(0, at))
    assert measure.rpo_steps(recovered(at, resume).record) == at - resume


def test_a_step_that_was_acted_and_not_recorded_is_lost() -> None:
    story = Story().start().steps(0, 2).act(2).crash().start(2).steps(2).finish()
    assert measure.rpo_steps(story.record) == 1


def test_an_incarnation_that_died_while_loading_does_not_count_the_loss_twice() -> None:
    story = Story().start().steps(0, 3).crash().start(1).crash().start(1).steps(1).finish()
    assert measure.rpo_steps(story.record) == 2


def test_losses_of_two_crashes_add_up() -> None:
    story = Story().start().steps(0, 3).crash().start(1).steps(1, 3).crash().start(2).steps(2).finish()
    assert measure.rpo_steps(story.record) == 2 + 1


def test_nothing_is_lost_when_all_was_done() -> None:
    assert measure.rpo_steps(Story().start().steps(0).crash().start(STEPS).finish().record) == 0


def test_everything_is_lost_when_nobody_takes_it_up() -> None:
    assert measure.rpo_steps(refusing().record) == 2


def test_the_end_that_the_harness_made_is_no_loss() -> None:
    assert measure.rpo_steps(stuck().record) == 0


def test_steps_of_an_agent_that_announces_none_are_the_turns_in_its_prompts() -> None:
    story = Story()
    story.attempt = 1
    story.ask(0).ask(1).ask(2).exit(-9)
    story.attempt = 2
    assert measure.rpo_steps(story.ask(1).record) == 1
    assert measure.steps(story.record) == 2


def test_recovery_time_is_split_at_the_points() -> None:
    # One second between events: inject, exit | started, before_load | after_load | 4 points of step 1, then step 2.
    story = Story().start().steps(0, 2).reach(2, "before_think").crash().start(1).steps(1).finish()
    replayed = 7  # before_think, asked, before_act, effect, after_act, during_commit, after_commit of step 1, then on
    assert measure.rto(story.record) == RecoveryTime(detect=1, restart=2, load=1, replay=replayed + 1)


def test_the_longest_recovery_counts() -> None:
    story = Story().start().steps(0, 1).crash().start(1).steps(1, 3).crash().start(0).steps(0).finish()
    # Steps 0 and 1 once more, one of them with an effect, then the first point of step 2.
    assert measure.rto(story.record) == RecoveryTime(detect=1, restart=2, load=1, replay=6 + 7 + 1)


def test_a_commit_that_lags_behind_does_not_move_the_interrupted_step() -> None:
    story = Story().start().steps(0, 2).reach(2, "before_think").reach(1, "after_commit").crash()
    time = measure.rto(story.start(2).steps(2).finish().record)
    assert time is not None
    assert time.replay == 1


def test_parts_that_were_not_seen_count_nothing() -> None:
    story = Story()
    story.attempt = 1
    story.exit(1)
    assert measure.rto(story.record) == RecoveryTime()


def test_time_to_detect_begins_at_the_last_fault_of_that_incarnation() -> None:
    story = Story().start().add(Injecting, index=0, fault="rate_limit", point="0/before_think").steps(0, 2).crash()
    time = measure.rto(story.start(2).steps(2).finish().record)
    assert time is not None
    assert time.detect == 1


def test_tokens_are_useful_once() -> None:
    story = Story().start().ask(0).ask(0).ask(1, status=429).ask(1, status=400).ask(1)
    assert measure.tokens(story.record) == Tokens(useful=15 + 25, asked_again=15, retried=20)


@pytest.mark.parametrize("statuses", [(), (-9,), (-9, 1, 0)])
def test_written_bytes_of_all_incarnations_count(statuses: tuple[int, ...]) -> None:
    story = Story()
    for status in statuses:
        story.exit(status)
    assert measure.storage(story.record).written == 1000 * len(statuses)
