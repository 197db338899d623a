from __future__ import annotations

from chaos.checks.finishes import Finishes, loud, refused
from chaos.verdict import PASS, Outcome, Verdict
from tests.journals import FACTS, TERMS, Story, recovered, reference, refusing, stuck


def judged(story: Story) -> Verdict:
    return Finishes().check(story.record, reference().record, TERMS, FACTS)


def test_a_recovered_run_finishes() -> None:
    assert judged(recovered()) == PASS
    assert not loud(recovered().record)


def test_a_refusal_quotes_the_last_line() -> None:
    verdict = judged(refusing())
    assert verdict.outcome is Outcome.FAIL
    assert verdict.finding == "refused to resume: ValueError: bad checksum (exit code 1, attempt 4)"
    assert verdict.details == ("Traceback", "ValueError: bad checksum")
    assert refused(refusing().record)


def test_asking_again_what_was_answered_is_still_recovery() -> None:
    story = Story().start().steps(0, 2).crash().start(1).act(1).exit(1, "KeyError").stop("gave up")
    assert refused(story.record)


def test_an_error_after_new_work_is_no_refusal() -> None:
    story = Story().start().steps(0, 2).crash().start(2).act(2).exit(1, "KeyError: 'x'").stop("gave up")
    assert not refused(story.record)
    assert loud(story.record)
    assert judged(story).finding == "gave up after 1 restart: exit code 1, KeyError: 'x'"


def test_death_by_signal_is_not_loud() -> None:
    story = Story().start().crash().start().exit(-11).stop("gave up")
    assert not loud(story.record)
    assert judged(story).finding == "gave up after 1 restart: SIGSEGV, without a word"


def test_a_first_incarnation_cannot_refuse_to_resume() -> None:
    assert not refused(Story().start().exit(1, "no").stop("gave up").record)


def test_a_run_that_was_stuck_says_where() -> None:
    assert judged(stuck()).finding == "did not finish (deadline); last seen at 2/after_act in attempt 2 of 2"
    assert judged(Story().stop("deadline")).finding == "did not finish (deadline); attempt 0 announced no point"


def test_a_journal_without_an_end_is_unknown() -> None:
    assert judged(Story().start().steps(0)).outcome is Outcome.UNKNOWN


def test_exit_status_0_is_not_the_end() -> None:
    story = Story().start().steps(0, 2).crash().start().exit(0).stop("finished")
    assert judged(story).finding.startswith("exited with status 0 and was not done; ")
    never = Story().start().exit(0).stop("finished").record
    assert Finishes().check(story.record, never, TERMS, FACTS) == PASS  # such an agent announces no end
