from __future__ import annotations

import json
from typing import Any

import msgspec

from chaos.checks.state import State
from chaos.events.seen import Asked, Ended, Reloaded
from chaos.record import Record
from chaos.verdict import PASS, Outcome, Verdict
from tests.journals import FACTS, GOAL, STEPS, TERMS, Story, digest, recovered, reference, refusing, state


def judged(story: Story, against: Story | None = None) -> Verdict:
    return State().check(story.record, (against or reference()).record, TERMS, FACTS)


def test_a_recovered_run_has_the_same_state() -> None:
    assert judged(recovered()) == PASS
    assert judged(recovered(at=3, resume=1)) == PASS


def test_a_different_state_at_the_end_is_named_by_its_path() -> None:
    other = {**state(STEPS), "messages": ["answer 0", "answer 1", "answer 2", "lost"]}
    verdict = judged(Story().start().steps(0).finish(snapshot=other, reloaded=state(STEPS)))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.finding == 'the state at the end differs: messages[3] is "lost" instead of "answer 3"'
    assert '+  "lost"' in verdict.details


def test_a_volatile_field_may_differ_and_its_neighbours_may_not() -> None:
    def at_end(**fields: Any) -> Record:
        story = Story().start().steps(0).finish(snapshot=fields, reloaded=fields)
        return Record(story.record.events, volatile=("$.started",))

    reference = at_end(started=1, x=1)
    assert State().check(at_end(started=2, x=1), reference, TERMS, FACTS) == PASS
    assert State().check(at_end(started=2, x=2), reference, TERMS, FACTS).outcome is Outcome.FAIL
    assert State().check(at_end(x=1), reference, TERMS, FACTS).outcome is Outcome.FAIL


def test_a_missing_and_an_extra_part_are_named() -> None:
    lost = judged(Story().start().steps(0).finish(snapshot={"messages": state(STEPS)["messages"]}))
    assert lost.finding == "the state at the end differs: step is missing"
    more = judged(Story().start().steps(0).finish(snapshot={**state(STEPS), "more": 1}))
    assert more.finding == "the state at the end differs: more is extra"


def test_numbers_and_truth_values_are_told_apart() -> None:
    one = Story().start().steps(0).finish(snapshot={"x": 1}, reloaded={"x": 1})
    true = Story().start().steps(0).finish(snapshot={"x": True}, reloaded={"x": 1})
    assert judged(true, one).finding == "the state at the end differs: x is true instead of 1"


def test_another_process_reads_something_else() -> None:
    verdict = judged(Story().start().steps(0).finish(reloaded=state(STEPS - 1)))
    assert verdict.finding.startswith("the state read back by another process differs: messages[3] is missing")


def test_what_the_agent_held_when_it_ended_is_what_must_be_stored() -> None:
    def left(stored: Any, live: Any) -> Story:
        raws = (msgspec.Raw(json.dumps(each).encode()) for each in (stored, live))
        return Story().start().steps(0).finish().add(Reloaded, **dict(zip(("state", "live"), raws, strict=True)))

    good, bad = left({"notes": ["a", "b"]}, {"notes": ["a", "b"]}), left({"notes": ["b", "a"]}, {"notes": ["a", "b"]})
    assert judged(good, good) == PASS
    alone = judged(bad, bad)
    assert alone.finding == (
        'what another process reads is not what the agent held when it ended: notes[0] is "b" instead of "a"'
    )
    assert judged(left({"notes": ["a", "b"]}, None), good).finding == (
        "the agent left no state of its own at its end, as the crash-free one did"
    )


def test_a_state_that_is_read_back_is_enough_to_compare() -> None:
    def stored(number: int) -> Record:
        raw = msgspec.Raw(b'{"number": %d}' % number)
        return Story().start().exit(0).add(Ended, how="finished").add(Reloaded, state=raw).record

    assert State().check(stored(1), stored(1), TERMS, FACTS) == PASS
    assert State().check(stored(2), stored(1), TERMS, FACTS).outcome is Outcome.FAIL


def test_a_store_that_cannot_be_read_back_fails() -> None:
    verdict = judged(Story().start().steps(0).finish(error="Traceback\nOSError: gone"))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.finding == "the store cannot be read by another process: OSError: gone"


def test_a_prompt_that_differs_names_turn_and_message() -> None:
    story = Story().start().steps(0, 2).crash().start(2).step(2, twist={1: "forged"}).steps(3).finish()
    verdict = judged(story)
    assert verdict.finding == "the prompt of turn 2 (attempt 2) differs from message 1 on"
    assert '+"forged"' in verdict.details
    assert '-"answer 0"' in verdict.details


def test_a_prompt_asked_again_with_other_content_counts() -> None:
    story = Story().start().steps(0, 3).crash().start(1).step(1, twist={1: "forged"}).steps(2).finish()
    assert judged(story).finding == "the prompt of turn 1 (attempt 2) differs from message 1 on"


def test_a_turn_too_many_and_a_turn_left_out_are_named() -> None:
    assert judged(Story().start().steps(0).ask(4).finish()).finding == (
        "the model was asked for turn 4, which the reference never had"
    )
    assert judged(Story().start().steps(0, 3).finish()).finding == "the model was never asked for turn 3"


def test_resuming_with_a_state_of_another_step_fails() -> None:
    story = Story().start().steps(0, 2).crash().start(2, of=state(1)).steps(2).finish()
    assert judged(story).finding == "attempt 2 resumed at step 2 with a state that the reference had not there"


def test_resuming_with_the_state_of_the_middle_of_a_step_is_right() -> None:
    middle = {**state(2), "pending": "answer 2"}
    against = Story().start().steps(0, 2).reach(2, "before_act", of=middle).steps(2).finish()
    story = Story().start().steps(0, 2).crash().start(2, of=middle).steps(2).finish()
    assert judged(story, against) == PASS
    assert judged(story).outcome is Outcome.FAIL


def test_a_run_that_did_not_finish_is_unknown() -> None:
    verdict = judged(refusing())
    assert (verdict.outcome, verdict.finding) == (Outcome.UNKNOWN, "the agent did not finish")


def test_a_reference_without_state_is_unknown() -> None:
    assert judged(reference(), Story().start().stop("finished")).outcome is Outcome.UNKNOWN


def test_a_run_that_announces_no_state_where_the_reference_did_is_unknown() -> None:
    silent = Story().start().steps(0).exit(0).stop("finished")
    assert judged(silent).finding == "the run announced no state at its end"


def test_a_store_that_nobody_read_back_is_unknown() -> None:
    story = reference()
    del story.events[-2:]
    assert judged(story).finding == "no other process read the run's store"
    assert judged(reference(), story) == PASS  # nothing to compare with: a strategy that keeps nothing


def test_a_reference_that_cannot_read_its_own_store_is_unknown() -> None:
    broken = Story().start().steps(0).finish(error="OSError: gone")
    assert judged(broken, broken).outcome is Outcome.UNKNOWN


def test_a_long_diff_is_cut() -> None:
    many = {"messages": [f"{number}" for number in range(500)]}
    verdict = judged(Story().start().steps(0).finish(snapshot=many))
    assert verdict.details[-1].endswith("more lines")
    assert len(verdict.details) < 50


def short(turn: int, *, refused: str = "context_length") -> Story:
    """Tell a run in which the prompt of *turn* was refused, and shown without its second message instead."""
    story = Story().start().steps(0, turn).ask(turn, status=400, refused=refused)
    messages = [GOAL, *(f"answer {number}" for number in range(turn))]
    del messages[1]
    digests = [digest(messages[: end + 1]) for end in range(len(messages))]
    story.add(Asked, turn=turn, status=200, goal=GOAL, **story.shown(messages, digests))
    return story.steps(turn).finish()


def test_a_prompt_that_was_too_long_may_leave_messages_out() -> None:
    assert judged(short(2)) == PASS
    assert judged(short(2, refused="")).finding.startswith("the prompt of turn 2 (attempt 1) differs")


def test_it_may_not_change_any() -> None:
    story = Story().start().steps(0, 2).ask(2, status=400, refused="context_length").ask(2, twist={1: "a summary"})
    assert judged(story.steps(2).finish()).finding.startswith("the prompt of turn 2 (attempt 1) differs")
