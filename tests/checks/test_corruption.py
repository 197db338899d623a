from __future__ import annotations

from chaos.checks.corruption import Corruption
from chaos.events.done import Audited
from chaos.verdict import PASS, Outcome, Verdict
from tests.journals import FACTS, STEPS, TERMS, Story, recovered, reference, state


def judged(story: Story, against: Story | None = None) -> Verdict:
    return Corruption().check(story.record, (against or reference()).record, TERMS, FACTS)


def damaged() -> Story:
    return Story().start().steps(0, 2).crash().damage()


def test_a_run_without_damage_passes() -> None:
    assert judged(recovered()) == PASS


def test_healed_damage_passes() -> None:
    assert judged(damaged().start(2).steps(2).finish()) == PASS


def test_rolled_back_to_an_older_checkpoint_is_healed_if_effects_are_not_repeated() -> None:
    assert judged(damaged().start(1).step(1, effects=False).steps(2).finish()) == PASS
    verdict = judged(damaged().start(1).steps(1).finish())
    assert verdict.finding.endswith("email.send happened 2 times instead of once (step 1)")


def test_damage_that_is_refused_passes() -> None:
    assert judged(damaged().start(2).exit(1, "ValueError: bad checksum").stop("gave up")) == PASS


def test_a_prompt_made_of_damaged_state_is_silent_damage() -> None:
    verdict = judged(damaged().start(2).step(2, twist={1: "forged"}).steps(3).finish())
    assert verdict.outcome is Outcome.FAIL
    assert verdict.finding == (
        "silent damage: flip in langgraph_sqlite at delta 2; the prompt of turn 2 (attempt 2) differs from message 1 on"
    )
    assert verdict.details[0] == "flip in langgraph_sqlite at delta 2: 8 bytes became 8"


def test_an_error_after_damaged_state_was_used_does_not_excuse_it() -> None:
    story = damaged().start(2).act(2, twist={1: "forged"}).exit(1, "KeyError").stop("gave up")
    assert judged(story).outcome is Outcome.FAIL


def test_a_prompt_that_the_endpoint_rejected_was_not_used() -> None:
    story = damaged().start(2).ask(2, twist={1: "forged"}, status=400).exit(1, "BadRequest").stop("gave up")
    assert judged(story) == PASS


def test_a_prompt_that_differed_before_the_damage_is_none_of_its_matter() -> None:
    story = Story().start().step(0).step(1, twist={1: "forged"}).crash().damage().start(2).steps(2).finish()
    assert judged(story) == PASS


def test_a_wrong_state_at_the_end_is_silent_damage() -> None:
    verdict = judged(damaged().start(2).steps(2).finish(snapshot={**state(STEPS), "step": 7}))
    assert "step is 7 instead of 4" in verdict.finding


def test_a_run_that_hangs_or_dies_by_a_signal_is_unknown() -> None:
    assert judged(damaged().start(2).exit(-9).stop("deadline")).outcome is Outcome.UNKNOWN


def test_a_reference_without_state_is_unknown() -> None:
    assert judged(damaged().start(2).exit(0).stop("finished"), Story().stop("finished")).outcome is Outcome.UNKNOWN


def audited(story: Story, when: str, *findings: str) -> Story:
    return story.add(Audited, when=when, threads=1, checkpoints=4, writes=9, findings=findings, blind=("flipped bits",))


def test_silent_damage_that_could_have_been_seen_is_told_as_such() -> None:
    story = audited(damaged(), "crashed", "missing: a row", "missing: another")
    verdict = judged(story.start(2).step(2, twist={1: "forged"}).steps(3).finish())
    assert verdict.finding.endswith("; the stored thread shows it (missing: a row), and the agent went on")
    assert verdict.details[1:3] == ("missing: a row", "missing: another")


def test_silent_damage_that_nobody_could_have_seen_too() -> None:
    story = audited(audited(damaged(), "crashed").start(2).step(2, twist={1: "forged"}).steps(3).finish(), "end", "new")
    assert judged(story).finding.endswith("; nothing in what is stored shows it")


def test_healed_damage_passes_whatever_the_store_shows() -> None:
    story = audited(damaged(), "crashed", "missing: a row").start(2).steps(2).finish()
    assert judged(audited(story, "end", "missing: a row")) == PASS


def test_a_thread_that_is_left_damaged_without_a_fault_to_the_store_is_a_finding() -> None:
    story = audited(
        Story().start().steps(0, 2).crash().start(2).steps(2).finish(), "end", "missing: a row", "doubled: it"
    )
    verdict = judged(story)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.finding == "the agent left a damaged thread by itself: missing: a row"
    assert verdict.details == ("missing: a row", "doubled: it")
    assert judged(audited(recovered(), "end")) == PASS


def test_the_crash_free_run_is_what_others_are_compared_with() -> None:
    assert judged(audited(reference(), "end", "missing: a row")) == PASS
