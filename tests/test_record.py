from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from chaos import judge, measure, registry
from chaos.checks import Terms
from chaos.events.seen import Asked, Ended, Observed
from chaos.journal import AnyEvent, Journal, read
from chaos.record import Record
from chaos.results import Tokens
from chaos.targets import Facts
from chaos.verdict import Outcome
from tests import splices
from tests.journals import SEEN, STEPS, Story, recovered, reference, refusing, state, stuck


def test_a_crash_free_run() -> None:
    run = reference().record
    assert (run.attempts, run.ended, run.finished, run.crashes) == (1, "finished", True, ())
    assert run.final_state == run.reloaded_state == state(STEPS)
    assert run.final_observation == SEEN
    assert run.completed == {1}
    assert run.stored_bytes == 5000
    assert [request.turn for request in run.answered] == [0, 1, 2, 3]


def test_an_empty_journal_has_nothing_and_did_not_finish() -> None:
    run = Record([])
    assert (run.attempts, run.ended, run.finished) == (0, "", False)
    assert run.final_state is None
    assert run.final_observation is None
    assert run.reloaded is None


def test_a_record_does_not_grow_with_the_journal_that_it_was_made_of() -> None:
    events = reference().events
    run = Record(events)
    events.clear()
    assert run.finished


def test_a_record_of_a_journal_read_from_disk_is_the_same(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    for event in recovered().events:
        journal.attempt = event.attempt
        fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in ("at", "attempt")}
        journal.add(type(event), **fields)
    journal.close()
    run, again = recovered().record, Record(read(tmp_path / "journal.jsonl"))
    assert again.final_state == run.final_state
    assert again.messages == run.messages
    assert again.resumed_turn == run.resumed_turn


def test_the_end_is_that_of_the_last_incarnation() -> None:
    killed_at_the_end = reference().events[:-4]  # all was done and seen; then the kill
    story = Story()
    story.events, story.attempt = list(killed_at_the_end), 1
    run = story.crash().start(STEPS).exit(1).stop("gave up").record
    assert run.final_observation is None
    assert run.final_state is None
    assert run.completed == {1}


def test_crashes_leave_out_the_harness_ending_the_run() -> None:
    assert [event.attempt for event in recovered().record.crashes] == [1]
    assert [event.attempt for event in stuck().record.crashes] == [1]
    assert [event.attempt for event in refusing().record.crashes] == [1, 2, 3, 4]


def test_resumed_turn_comes_from_answered_requests_only() -> None:
    story = Story().start().steps(0, 2).crash().start(2).ask(3, status=429).ask(2)
    assert story.record.resumed_turn == {1: 0, 2: 2}
    assert [request.status for request in story.record.refused] == [429]


def test_effects_know_their_step() -> None:
    assert recovered().record.effect_steps == (1, 3)
    assert Story().effect("email.send:x").record.effect_steps == (None,)


def test_a_commit_that_lags_behind_does_not_move_an_effect_to_its_step() -> None:
    story = Story().start().step(0).reach(1, "before_act").reach(0, "after_commit").effect("email.send:x")
    assert story.record.effect_steps == (1,)


def test_messages_are_found_by_their_prefix() -> None:
    run = reference().record
    digests = run.prefixes(run.answered[2])
    assert [run.messages[digest] for digest in digests] == [run.message(digest) for digest in digests]
    assert run.conversation(run.answered[2])[1:] == ["answer 0", "answer 1"]


def test_observations_at_resume_are_those_of_later_incarnations() -> None:
    story = Story().start().add(Observed, step=0, phase="after_load", seen=SEEN).crash()
    story.start(0).add(Observed, step=0, phase="after_load", seen=SEEN)
    assert [event.attempt for event in story.record.resume_observations] == [2]


def test_asked_after_an_event_leaves_out_what_was_before() -> None:
    run = Story().start().steps(0, 2).damage().ask(2).ask(3, status=503).record
    assert [request.turn for request in run.asked_after(run.damages[0])] == [2]


@pytest.mark.parametrize("seed", range(30))
def test_requests_that_tell_the_whole_conversation_are_judged_alike(seed: int) -> None:
    """So did the first journals: each request had the digests up to every message."""
    rng, made = random.Random(seed), splices.setup()
    tellers = [splices.Teller(rng), splices.Teller(rng)]
    for teller in tellers:
        for _ in range(12):
            teller.something()
        teller.finish()
    tellers[0].harm()
    now = [Record(teller.events) for teller in tellers]
    then = [Record([whole(event, run) for event in run.events]) for run in now]
    plan = "+".join(["kill@2/after_act"] * 2)
    one, other = (splices.everything(*runs, plan, made, splices.FACTS, Terms()) for runs in (now, then))
    assert one == other
    assert now[0].messages == then[0].messages


def whole(event: AnyEvent, run: Record) -> AnyEvent:
    if not isinstance(event, Asked):
        return event
    prefixes = tuple(run.prefixes(event))
    return msgspec.structs.replace(event, prefixes=prefixes, kept=0, onto="", added=(), opening="")


def test_a_journal_of_the_first_version_is_judged_as_it_was() -> None:
    run, reference = (
        Record(read(Path(__file__).parent / "old_journals" / f"{name}.jsonl")) for name in ("killed", "reference")
    )
    assert all(request.prefixes and not request.added for request in run.asked)
    facts = Facts(goal=run.asked[0].goal, max_requests=13)
    verdicts = judge.judge(run, reference, registry.names("checks"), Terms(max_lost_steps=0), facts)
    assert {name: verdict.finding for name, verdict in verdicts.items() if verdict.outcome is Outcome.FAIL} == {
        "budget": "the budget was reset: the agent counts 0 steps used at turn 3 (attempt 2); the reference had used 3"
        " (and 1 more)",
        "recovery": "1 step lost by a crash; allowed: 0",
        "state": "attempt 2 resumed at step 3 with a state that the reference had not there (and 1 more)",
    }
    assert measure.tokens(run) == Tokens(useful=16496, asked_again=1208, retried=0)
    assert len(run.messages) == 24
    assert run.conversation(run.asked[3])[-1] == {
        "role": "tool",
        "content": '{"queued":true}',
        "tool_call_id": "call_q1_2",
    }
    assert [request.beginning for request in run.asked] == [request.prefixes[0] for request in run.asked]


def test_a_record_is_frozen() -> None:
    with pytest.raises(AttributeError):
        reference().record.events = (Ended(at=0, attempt=1, how="finished"),)  # type: ignore[misc]
